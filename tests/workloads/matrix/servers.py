"""Starts the servers of the matrix: each on a port of its own, from the folder in which `prepare` built them.

Every server ends with the program that started it.
"""

import ctypes
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).parent
PORTS = range(24000, 25000)
PR_SET_PDEATHSIG = 1
LISTEN = "0A"

# The first ones are asked by lines, the others by their own protocols.
LINES = ["c", "threads", "asyncio", "node", "java", "go"]
OTHERS = ["nginx", "redis", "postgres", "haproxy"]

LIBC = ctypes.CDLL(None, use_errno=True)


def postgres_program(name):
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else None


def tool(*names):
    """The first of these programs that is installed."""
    return next((path for name in names if (path := shutil.which(name, path=search_path()))), None)


def search_path():
    return os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin"


def needs(server):
    """The program that a server needs, or None where it is not installed. Some troubles need a program too."""
    programs = {"c": ["cc", "gcc"], "threads": [sys.executable], "asyncio": [sys.executable], "node": ["node"],
                "java": ["javac"], "go": ["go"], "nginx": ["nginx"], "redis": ["redis-server"],
                "haproxy": ["haproxy"], "ip": ["ip"], "tc": ["tc"], "nft": ["nft"]}
    return postgres_program("postgres") if server == "postgres" else tool(*programs[server])


def lacking(server):
    return None if needs(server) else f"{server} is not installed"


def as_postgres():
    """What a child does before it runs PostgreSQL, which refuses root."""
    user = pwd.getpwnam("postgres")
    os.initgroups("postgres", user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def prepare(built, wished):
    """Compiles what these servers need; returns why one is left out, by its name."""
    built.mkdir(parents=True, exist_ok=True)
    missing = {server: why for server in wished if (why := lacking(server))}
    wished = set(wished) - set(missing)
    if "c" in wished:
        run([needs("c"), "-O1", "-Wall", "-Werror", "-o", built / "server", FOLDER / "server.c"])
    if "java" in wished:
        run([needs("java"), "-d", built, FOLDER / "Server.java"])
    if "go" in wished:
        run([needs("go"), "build", "-o", built / "server-go", FOLDER / "server.go"])
    if "postgres" in wished and not (built / "cluster").exists():
        # Its user has to reach it.
        for folder in [built, *built.parents]:
            if folder.stat().st_uid == 0 and folder != pathlib.Path("/") and not folder.stat().st_mode & 1:
                missing["postgres"] = f"{folder} is closed to the user postgres"
        cluster = built / "cluster"
        cluster.mkdir()
        shutil.chown(cluster, "postgres", "postgres")
        run([postgres_program("initdb"), "--auth=trust", "--username=postgres", "--no-sync", "--pgdata",
             cluster / "data"], preexec_fn=as_postgres, cwd="/")
        with (cluster / "data/pg_hba.conf").open("a") as access:
            access.write("host all all 10.86.0.0/24 trust\n")
    return missing


def run(words, **options):
    environment = os.environ | {"PATH": search_path(), "HOME": os.environ.get("HOME", "/root")}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          env=environment, **options)
    if done.returncode:
        raise SystemExit(f"{words}: {done.stderr}{done.stdout}")
    return done.stdout


def free_port():
    """A port of the range that nothing uses."""
    for port in PORTS[os.getpid() % 900:]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            if port not in TAKEN:
                TAKEN.add(port)
                return port
    raise SystemExit("no port is free")


TAKEN = set()
STARTED = []
# How long each process had waited for a CPU when its server was ready.
BEFORE = {}


def listens(pid, port):
    """By proc(5), without a connection."""
    for table in ("tcp", "tcp6"):
        path = pathlib.Path(f"/proc/{pid}/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            words = line.split()
            if words[1].endswith(f":{port:04X}") and words[3] == LISTEN:
                return True
    return False


class Server:
    """A running server: its name, its port, its process."""

    def __init__(self, name, built, trouble="none", upstream=None, link=None):
        self.name, self.built, self.trouble = name, built, trouble
        self.host = link.far if link else "127.0.0.1"
        self.port = free_port()
        self.upstream_port = upstream.port if upstream else 0
        self.folder = built / f"run-{os.getpid()}-{self.port}"
        command = getattr(self, f"by_{name}")()
        if link:
            command = ["ip", "netns", "exec", link.namespace, *command]
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=self.in_child, cwd="/", env=self.environment())
        STARTED.append(self)
        since = time.monotonic()
        while not listens(self.process.pid, self.port):
            if self.process.poll() is not None or time.monotonic() - since > 20:
                raise SystemExit(f"{name} does not listen")
            time.sleep(0.01)
        if name == "postgres":
            self.wait_until_ready()
        BEFORE.update(account([os.getpid(), *self.pids()]))

    def environment(self):
        return os.environ | {"PATH": search_path(), "MATRIX_HOST": self.host}

    def in_child(self):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if self.name == "postgres":
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)

    @property
    def pid(self):
        """The process that serves."""
        if self.name in ("nginx", "haproxy"):
            return self.worker()
        return self.process.pid

    def worker(self):
        """The only child of the process that was started."""
        since = time.monotonic()
        path = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not (children := path.read_text().split()):
            if time.monotonic() - since > 20:
                raise SystemExit(f"{self.name} has no worker")
            time.sleep(0.01)
        return int(children[0])

    def pids(self):
        """The process that was started, and its children."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *map(int, children.read_text().split())]

    def arguments(self):
        return [self.port, self.trouble, self.upstream_port]

    def by_c(self):
        return [self.built / "server", *self.arguments()]

    def by_threads(self):
        return [sys.executable, "-B", FOLDER / "threads.py", *self.arguments()]

    def by_asyncio(self):
        return [sys.executable, "-B", FOLDER / "loop.py", *self.arguments()]

    def by_node(self):
        return [needs("node"), FOLDER / "server.js", *self.arguments()]

    def by_java(self):
        return [tool("java"), "-XX:TieredStopAtLevel=1", "-cp", self.built, "Server", *self.arguments()]

    def by_go(self):
        return [self.built / "server-go", *self.arguments()]

    def by_nginx(self):
        self.folder.mkdir()
        for name, size in (("small", 200), ("large", 4_000_000), ("stream", 100_000)):
            (self.folder / name).write_bytes(b"s" * size)
        temporary = "".join(f"{kind}_temp_path {self.folder}/{kind}; "
                            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        backlog = {"accept-queue": " backlog=1", "send-buffer": " sndbuf=16k"}.get(self.trouble, "")
        (self.folder / "nginx.conf").write_text(f"""
            daemon off; user root; pid {self.folder}/pid; worker_processes 1; events {{ worker_connections 256; }}
            error_log {self.folder}/errors;
            http {{
                access_log off; sendfile on; keepalive_requests 10000; root {self.folder}; {temporary}
                limit_req_zone $binary_remote_addr zone=slow:1m rate=5r/s;
                limit_req_zone $binary_remote_addr zone=never:1m rate=1r/m;
                upstream far {{ server 127.0.0.1:{self.upstream_port or 1}; keepalive 4; }}
                server {{
                    listen {self.host}:{self.port}{backlog};
                    lingering_close off; client_max_body_size 1k;
                    location /slow/ {{ alias {self.folder}/; limit_req zone=slow burst=50; }}
                    location /never/ {{ alias {self.folder}/; limit_req zone=never burst=50; }}
                    location /stream {{ sendfile_max_chunk 16k; limit_rate 160k; }}
                    location /sleep/ {{ proxy_pass http://far; proxy_http_version 1.1;
                                        proxy_set_header Connection ""; }}
                }}
            }}""")
        return [needs("nginx"), "-c", self.folder / "nginx.conf", "-e", self.folder / "errors"]

    def by_haproxy(self):
        self.folder.mkdir()
        (self.folder / "haproxy.cfg").write_text(f"""
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    http-reuse always
listen all
    bind 127.0.0.1:{self.port}
    server far 127.0.0.1:{self.upstream_port}
""")
        return [needs("haproxy"), "-W", "-f", self.folder / "haproxy.cfg"]

    def by_redis(self):
        self.folder.mkdir()
        backlog = 1 if self.trouble == "accept-queue" else 511
        return [needs("redis"), "--port", self.port, "--bind", self.host, "--protected-mode", "no", "--save", "", "--dir", self.folder,
                "--tcp-backlog", backlog, "--enable-debug-command", "yes"]

    def by_postgres(self):
        (self.built / "cluster/data/postmaster.pid").unlink(missing_ok=True)
        by_its_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        return [*by_its_user, postgres_program("postgres"), "-D", self.built / "cluster/data", "-p", self.port, "-k", "",
                "-c", f"listen_addresses={self.host}", "-c", "fsync=off", "-c", "jit=off"]

    def wait_until_ready(self):
        """It listens some time before it answers. Says so in a file, and no connection is needed."""
        since = time.monotonic()
        status = self.built / "cluster/data/postmaster.pid"
        while "ready" not in (status.read_text() if status.exists() else ""):
            if time.monotonic() - since > 20:
                raise SystemExit("postgres is not ready")
            time.sleep(0.01)

    def ended(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT if self.name == "postgres" else signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def waited(task):
    """Nanoseconds for which a thread waited for a CPU; none for a thread that has ended meanwhile."""
    try:
        return int(task.read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def account(pids):
    """Nanoseconds for which each process waited for a CPU so far, by the scheduler's own account (proc(5))."""
    tasks = {pid: pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat") for pid in pids}
    return {pid: sum(waited(task) for task in tasks[pid]) for pid in pids}


def without_cpu():
    """The same since the last server was ready."""
    pids = [os.getpid()] + [pid for server in STARTED for pid in server.pids()]
    return {pid: total - BEFORE.get(pid, 0) for pid, total in account(pids).items()}


def end_all():
    while STARTED:
        STARTED.pop().ended()
