//! QUIC: one connection, a stream for each call, encrypted as it always is.

use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};
use tokio::runtime::{Builder, Runtime};

use super::ends::{ANY, Call, on_second_cpu};

const NAME: &str = "localhost";

pub struct Quic {
    runtime: Runtime,
    /// Goes on only while it is held.
    _endpoint: Endpoint,
    connection: Connection,
    octets: Vec<u8>,
}

/// One thread runs all of one end.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

impl Quic {
    pub fn start(octets: usize) -> Self {
        let certified =
            rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
        let certificate = certified.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())
            .expect("a certificate and its key");
        let (ready, address) = std::sync::mpsc::channel();
        on_second_cpu(move || {
            runtime().block_on(async move {
                let endpoint = Endpoint::server(config, ANY).expect("a socket");
                ready.send(endpoint.local_addr().expect("it is bound")).expect("a client");
                serve(&endpoint, octets).await;
            });
        });
        let address = address.recv().expect("a server");
        let runtime = runtime();
        let (endpoint, connection) = runtime.block_on(async {
            let endpoint = Endpoint::client(ANY).expect("a socket");
            let connecting = endpoint.connect_with(client_config(certificate), address, NAME);
            let connection = connecting.expect("a name").await.expect("a server");
            (endpoint, connection)
        });
        Self { runtime, _endpoint: endpoint, connection, octets: vec![7; octets] }
    }
}

fn client_config(certificate: CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let tls = quinn::rustls::ClientConfig::builder().with_root_certificates(roots);
    let tls = QuicClientConfig::try_from(tls.with_no_client_auth()).expect("its ciphers");
    ClientConfig::new(Arc::new(tls))
}

async fn serve(endpoint: &Endpoint, octets: usize) {
    let connection = endpoint.accept().await.expect("a client").await.expect("a connection");
    let mut request = vec![0; octets];
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        receive.read_exact(&mut request).await.expect("a request");
        send.write_all(&request).await.expect("a client");
        send.finish().expect("an open stream");
    }
}

impl Call for Quic {
    fn call(&mut self) {
        let Self { runtime, connection, octets, .. } = self;
        runtime.block_on(async {
            let (mut send, mut receive) = connection.open_bi().await.expect("a connection");
            send.write_all(octets).await.expect("a server");
            send.finish().expect("an open stream");
            receive.read_exact(octets).await.expect("an answer");
        });
    }
}
