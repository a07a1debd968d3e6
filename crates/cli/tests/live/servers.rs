//! Servers that many people run, each with its own port and files.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::background::{Background, free_port};
use crate::bundle::stdout_of;

/// A server of its own, without files.
pub struct Redis {
    pub port: u16,
    _folder: TempDir,
    server: Background,
}

impl Redis {
    /// Starts it, ready to answer.
    pub fn start() -> Self {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let mut redis = Command::new("redis-server");
        redis.args(["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--dir"]);
        redis.arg(folder.path());
        let server = Background::start(&mut redis, "-TERM").listening(port);
        Self { port, _folder: folder, server }
    }

    /// Number of its process.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// What it has got from clients and sent to them, this question aside.
    pub fn network_bytes(&self) -> (u64, u64) {
        const QUESTION: &[u8] = b"INFO stats\r\n";
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        socket.write_all(QUESTION).expect("it reads");
        socket.shutdown(std::net::Shutdown::Write).expect("connected");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("it answers in text");
        let total = |name: &str| -> u64 {
            let line = answer.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).expect("redis counts its bytes")
        };
        let got = total("total_net_input_bytes:") - QUESTION.len() as u64;
        (got, total("total_net_output_bytes:"))
    }
}

/// A server of its own, with a large and a small file.
pub struct Nginx {
    pub port: u16,
    _folder: TempDir,
    server: Background,
}

impl Nginx {
    /// Of its file `large`.
    pub const LARGE_BYTES: u64 = 100_000_000;

    /// Starts it, ready to answer.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts it as a proxy that asks the server at the port `upstream` for each `/app`.
    pub fn start_before(upstream: u16) -> Self {
        Self::start_with(&format!("location /app {{ proxy_pass http://127.0.0.1:{upstream}/; }}"))
    }

    fn start_with(locations: &str) -> Self {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {path}/{what};"))
            .concat();
        let configuration = format!(
            "user root; daemon off; worker_processes 1; pid {path}/pid; error_log {path}/errors;
             events {{ worker_connections 1024; }}
             http {{ access_log off; sendfile on; keepalive_requests 10000; {temporary}
                     server {{ listen 127.0.0.1:{port}; root {path}; {locations} }} }}"
        );
        let file = |name: &str| folder.path().join(name);
        fs::write(file("nginx.conf"), configuration).expect("the folder is ours");
        fs::write(file("small"), [b's'; 1000]).expect("the folder is ours");
        let large = fs::File::create(file("large")).expect("the folder is ours");
        large.set_len(Self::LARGE_BYTES).expect("a sparse file");
        let mut nginx = Command::new("/usr/sbin/nginx");
        nginx.arg("-c").arg(file("nginx.conf")).arg("-e").arg(file("errors"));
        let server = Background::start(&mut nginx, "-TERM").listening(port);
        Self { port, _folder: folder, server }
    }

    /// Number of the process that serves.
    pub fn worker_pid(&self) -> u32 {
        let master = self.server.pid();
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children"));
        let first = children.as_deref().unwrap_or_default().split_whitespace().next();
        first.and_then(|pid| pid.parse().ok()).expect("nginx has a worker")
    }
}

/// A cluster of its own, run by the user `postgres` as it refuses root.
pub struct Postgres {
    pub port: u16,
    folder: TempDir,
    _server: Background,
}

impl Postgres {
    /// Starts it, ready to answer.
    pub fn start() -> Self {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let open_to_all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), open_to_all).expect("the folder is ours");
        let data = folder.path().join("data").display().to_string();
        let mut initdb = as_postgres("initdb");
        initdb.args(["--auth=trust", "--username=postgres", "--no-sync", "--pgdata", &data]);
        stdout_of(&initdb.output().expect("PostgreSQL is installed"));
        let mut postgres = as_postgres("postgres");
        postgres.args(["-D", &data, "-p", &port.to_string(), "-k"]).arg(folder.path());
        postgres.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]);
        let server = Background::start(&mut postgres, "-INT").listening(port);
        let cluster = Self { port, folder, _server: server };
        cluster.wait_until_ready();
        cluster
    }

    /// It listens some time before it answers.
    fn wait_until_ready(&self) {
        let port = self.port.to_string();
        let mut ready = Command::new("pg_isready");
        ready.args(["--quiet", "--timeout=20", "--port", &port, "--host"]).arg(self.folder.path());
        let is_ready = (0..100).any(|_| {
            let status = ready.status().expect("PostgreSQL is installed");
            std::thread::sleep(std::time::Duration::from_millis(50));
            status.success()
        });
        assert!(is_ready, "PostgreSQL never got ready");
    }
}

/// A program of the newest PostgreSQL here, run by its user; it takes the place of the command, so
/// that a signal reaches it.
fn as_postgres(program: &str) -> Command {
    let mut folders: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .expect("PostgreSQL is installed")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    let newest = folders.last().expect("a version").join("bin").join(program);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(newest);
    command.current_dir("/");
    command
}
