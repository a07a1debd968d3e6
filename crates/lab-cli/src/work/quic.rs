//! Calls over QUIC (RFC 9000) by the library quinn: one connection for each client and member, one stream for each call.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, ServerConfig, TransportConfig};
use rcgen::{CertificateParams, KeyPair};
use sockscope_program::failure::Failure;
use sockscope_program::signals::StopSignals;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::calls::{Answered, Caller, Sizes, message, number_of, room};

/// The name in the certificate.
const NAME: &str = "localhost";
/// An Ed25519 key in the form of PKCS #8 without its 32 octets (RFC 8410, section 7).
const KEY_HEAD: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
/// A server looks so often whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("lab work: QUIC: {error}"))
}

/// The server's certificate and its key. Both ends make the same one, so that the client knows it. It keeps no secret:
/// it is for measurements between the namespaces of one run.
fn certificate() -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), Failure> {
    let key = PrivatePkcs8KeyDer::from([&KEY_HEAD[..], &[0x53; 32]].concat());
    let pair = KeyPair::try_from(&key).map_err(failed)?;
    let parameters = CertificateParams::new([NAME.to_owned()]).map_err(failed)?;
    let certificate = parameters.self_signed(&pair).map_err(failed)?;
    Ok((certificate.der().clone(), key))
}

/// Without groups of datagrams (GSO), which the host counts as one: counts are of packets.
fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.enable_segmentation_offload(false);
    Arc::new(transport)
}

fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(failed)
}

/// Answers at all these addresses until the program is to stop.
pub fn serve(
    at: &[SocketAddr],
    sizes: Sizes,
    answered: &Arc<Answered>,
    stop: &StopSignals,
) -> Result<(), Failure> {
    let (certificate, key) = certificate()?;
    let mut server =
        ServerConfig::with_single_cert(vec![certificate], key.into()).map_err(failed)?;
    server.transport_config(transport());
    let runtime = runtime()?;
    let entered = runtime.enter();
    // The first is the last to listen: clients that wait for it find all.
    let endpoints = at.iter().rev().map(|at| Endpoint::server(server.clone(), *at));
    let endpoints: Vec<Endpoint> = endpoints.collect::<io::Result<_>>().map_err(failed)?;
    drop(entered);
    if let Some(last) = endpoints.last() {
        stderr!("sockscope: lab work: receives at {}", last.local_addr()?);
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.stop_requested() {
                thread::sleep(LOOK_EVERY);
            }
            endpoints.iter().for_each(|endpoint| endpoint.close(0_u32.into(), b""));
        });
        runtime.block_on(async {
            let mut all = JoinSet::new();
            for endpoint in &endpoints {
                all.spawn(accept(endpoint.clone(), sizes, Arc::clone(answered)));
            }
            while all.join_next().await.is_some() {}
        });
    });
    Ok(())
}

async fn accept(endpoint: Endpoint, sizes: Sizes, answered: Arc<Answered>) {
    while let Some(incoming) = endpoint.accept().await {
        let answered = Arc::clone(&answered);
        tokio::spawn(async move {
            // A client that is gone needs no answer.
            if let Ok(connection) = incoming.await {
                let _ = answer_all(&connection, sizes, &answered).await;
            }
        });
    }
}

async fn answer_all(
    connection: &Connection,
    sizes: Sizes,
    answered: &Answered,
) -> Result<(), quinn::ConnectionError> {
    let mut request = room(sizes.request);
    loop {
        let (mut send, mut receive) = connection.accept_bi().await?;
        if receive.read_exact(&mut request).await.is_err() {
            continue;
        }
        answered.add();
        if let Ok(number) = number_of(&request) {
            // An error ends the connection, and the next stream with it.
            let _ = send.write_all(&message(number, sizes.response)).await;
            let _ = send.finish();
        }
    }
}

/// A client, with a connection to each member.
pub struct QuicCaller {
    runtime: Runtime,
    connections: Vec<Connection>,
    sizes: Sizes,
    /// Responses that are under way.
    responses: JoinSet<io::Result<u64>>,
    /// It ends with its last holder, and the connections with it.
    _endpoint: Endpoint,
}

impl QuicCaller {
    /// Connects to all of them.
    pub fn connect(to: &[SocketAddr], sizes: Sizes) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate()?.0).map_err(failed)?;
        let tls = quinn::rustls::ClientConfig::builder().with_root_certificates(roots);
        let tls = QuicClientConfig::try_from(tls.with_no_client_auth()).map_err(failed)?;
        let mut client = ClientConfig::new(Arc::new(tls));
        client.transport_config(transport());
        let runtime = runtime()?;
        let connected = runtime.block_on(async {
            let mut endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
            endpoint.set_default_client_config(client);
            let mut connections = Vec::new();
            for to in to {
                let connecting = endpoint.connect(*to, NAME).map_err(io::Error::other)?;
                connections.push(connecting.await.map_err(io::Error::other)?);
            }
            Ok::<_, io::Error>((endpoint, connections))
        });
        let (endpoint, connections) = connected.map_err(failed)?;
        let responses = JoinSet::new();
        Ok(Self { runtime, connections, sizes, responses, _endpoint: endpoint })
    }
}

impl Caller for QuicCaller {
    fn call(&mut self, number: u64) -> io::Result<usize> {
        let Self { runtime, connections, sizes, responses, .. } = self;
        let request = message(number, sizes.request);
        runtime.block_on(async {
            for connection in connections {
                let (mut send, receive) = connection.open_bi().await.map_err(io::Error::other)?;
                // A member that is slow takes no more of it at last, and the client waits for it.
                send.write_all(&request).await.map_err(io::Error::other)?;
                send.finish().map_err(io::Error::other)?;
                responses.spawn(response(receive, sizes.response));
            }
            while let Some(read) = responses.join_next().await {
                if read.map_err(io::Error::other)?? == number {
                    return Ok(sizes.response);
                }
            }
            Err(io::Error::other("no member answered"))
        })
    }
}

async fn response(mut from: RecvStream, bytes: usize) -> io::Result<u64> {
    let mut response = room(bytes);
    from.read_exact(&mut response).await.map_err(io::Error::other)?;
    number_of(&response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_make_the_same_certificate() {
        let [one, other] = [(); 2].map(|()| certificate().expect("it is made"));
        assert_eq!((one.0, one.1.secret_pkcs8_der()), (other.0, other.1.secret_pkcs8_der()));
    }
}
