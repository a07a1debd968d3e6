//! QUIC: one connection for each client, one stream for each call.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};
use tokio::runtime::{Builder, Runtime};

use super::transport::{Client, Message, Server, Transport, answer};

/// Name in the server's certificate.
const NAME: &str = "localhost";

/// QUIC on loopback, encrypted as it always is; client and server share one runtime of two threads.
pub(super) struct Quic;

impl Transport for Quic {
    fn serve(&self, request_bytes: usize) -> io::Result<Box<dyn Server>> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let certified =
            rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        let certificate = certified.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())
            .map_err(io::Error::other)?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate).map_err(io::Error::other)?;
        let guard = runtime.enter();
        let endpoint = Endpoint::server(server, (Ipv4Addr::LOCALHOST, 0).into())?;
        let address = endpoint.local_addr()?;
        let serving = endpoint.clone();
        runtime.spawn(async move { serve(&serving, request_bytes.max(1)).await });
        drop(guard);
        let clients = client_config(roots)?;
        Ok(Box::new(QuicServer { request_bytes, runtime, endpoint, address, clients }))
    }
}

fn client_config(roots: RootCertStore) -> io::Result<ClientConfig> {
    let tls = quinn::rustls::ClientConfig::builder().with_root_certificates(roots);
    let tls = QuicClientConfig::try_from(tls.with_no_client_auth()).map_err(io::Error::other)?;
    Ok(ClientConfig::new(Arc::new(tls)))
}

async fn serve(endpoint: &Endpoint, request_bytes: usize) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            let mut request = vec![0; request_bytes];
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                let served = receive.read_exact(&mut request).await.is_ok()
                    && send.write_all(&answer(&request)).await.is_ok()
                    && send.finish().is_ok();
                if !served {
                    return;
                }
            }
        });
    }
}

struct QuicServer {
    request_bytes: usize,
    runtime: Runtime,
    endpoint: Endpoint,
    address: SocketAddr,
    clients: ClientConfig,
}

impl Server for QuicServer {
    fn client(&self) -> io::Result<Box<dyn Client>> {
        let handle = self.runtime.handle().clone();
        let (endpoint, connection) = handle.block_on(async {
            let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
            let connecting = endpoint.connect_with(self.clients.clone(), self.address, NAME);
            let connection = connecting.map_err(io::Error::other)?.await;
            Ok::<_, io::Error>((endpoint, connection.map_err(io::Error::other)?))
        })?;
        let message = Message::new(self.request_bytes);
        Ok(Box::new(QuicClient { handle, endpoint, connection, message }))
    }
}

impl Drop for QuicServer {
    fn drop(&mut self) {
        self.endpoint.close(0u32.into(), b"");
    }
}

struct QuicClient {
    handle: tokio::runtime::Handle,
    endpoint: Endpoint,
    connection: Connection,
    message: Message,
}

impl QuicClient {
    async fn exchange(connection: &Connection, message: &mut Message) -> io::Result<()> {
        let (mut send, mut receive) = connection.open_bi().await.map_err(io::Error::other)?;
        send.write_all(&message.request).await.map_err(io::Error::other)?;
        send.finish().map_err(io::Error::other)?;
        receive.read_exact(&mut message.response).await.map_err(io::Error::other)
    }
}

impl Client for QuicClient {
    fn call(&mut self, number: u64) -> io::Result<()> {
        self.message.number(number);
        let exchange = Self::exchange(&self.connection, &mut self.message);
        self.handle.block_on(exchange)?;
        self.message.check()
    }

    fn port(&self) -> Option<u16> {
        self.endpoint.local_addr().ok().map(|address| address.port())
    }
}
