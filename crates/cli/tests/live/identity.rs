//! Options belong to the socket that set them, also where the next socket has its address in memory.

use crate::background::{Background, free_port};
use crate::bundle::{
    Recorder, Recording, command, run_once, sockscope_says, stdout_of, whole, words,
};
use crate::turn;

/// Opens sockets on the CPU that is given first, sets options, closes them without using them, again and
/// again: each later socket of that CPU most likely has the address in memory of one of these.
const STRANGERS: &str = "
import os, socket, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
print('strangers', file=sys.stderr, flush=True)
ends = time.monotonic() + 20
while time.monotonic() < ends:
    sockets = [socket.socket() for _ in range(8)]
    for one in sockets:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 26)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for one in sockets:
        one.close()
    time.sleep(0.001)
";

/// Connects to itself, one connection after the other, and sets nothing.
const SETS_NOTHING: &str = "
import os, socket, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
listener = socket.socket()
listener.bind(('127.0.0.1', int(sys.argv[2])))
listener.listen()
for _ in range(40):
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    client.sendall(bytes(3000))
    server.recv(3000, socket.MSG_WAITALL)
    client.close()
    server.close()
    time.sleep(0.002)
";

fn python(program: &str, arguments: &[&str]) -> Vec<String> {
    words(&[&["python3", "-c", program], arguments].concat())
}

fn show(recording: &Recording) -> String {
    sockscope_says(&["show", &recording.dir().display().to_string()])
}

/// The lines of options in `show`.
fn options(recording: &Recording) -> Vec<String> {
    let is_option = |line: &&str| line.contains(" SocketOption ");
    show(recording).lines().filter(is_option).map(str::to_owned).collect()
}

#[test]
fn root_options_of_closed_sockets_are_no_later_sockets() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| {
        let port = free_port().to_string();
        let recorder = Recorder::start(&["--port", &port], None);
        let strangers = &mut command(&python(STRANGERS, &["0"]));
        let strangers = Background::start_until(strangers, "-KILL", "strangers");
        stdout_of(
            &command(&python(SETS_NOTHING, &["0", &port])).output().expect("python is there"),
        );
        strangers.stop();
        recorder.stop()
    });
    assert_eq!(recording.report.connections().len(), 40, "{}", recording.report.summary());
    assert_eq!(options(&recording), Vec::<String>::new());
    assert!(!recording.report.found().contains("buffer-clipped"), "{}", recording.report.summary());
    for buffer in recording.report.connections().iter().flat_map(|one| one["buffers"].as_array()) {
        assert!(buffer.iter().all(|one| one["asked_bytes"].is_null()), "{buffer:?}");
    }
}

/// Sets options before and after its sockets are connected: on the listener, which the accepted socket
/// has them from, on the client and on the accepted socket.
const SETS: &str = "
import socket
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50000)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
listener.bind(('127.0.0.1', 0))
listener.listen()
for n in range(3):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 40000 + n)
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    client.sendall(bytes(3000))
    server.recv(3000, socket.MSG_WAITALL)
    client.close()
    server.close()
";

#[test]
fn root_an_accepted_socket_has_its_listeners_options_and_its_own() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| run_once(&[], &python(SETS, &[])));
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 3, "{}", recording.report.summary());
    for (n, connection) in connections.iter().enumerate() {
        let asked = |side: &str, buffer: &str| {
            let all = connection["buffers"].as_array().expect("a list").iter();
            let mut its = all.filter(|one| one["side"] == side && one["buffer"] == buffer);
            its.next().and_then(|one| one["asked_bytes"].as_u64())
        };
        assert_eq!(asked("client", "send"), Some(40_000 + n as u64), "{connection}");
        assert_eq!(asked("client", "receive"), None, "{connection}");
        assert_eq!(asked("server", "send"), None, "{connection}");
        assert_eq!(asked("server", "receive"), Some(50_000), "{connection}");
    }
    let told = options(&recording);
    for (option, times) in
        [("TCP_NODELAY = 1", 3), ("TCP_CORK = 1", 3), ("TCP_CORK = 0", 3), ("SO_RCVBUF", 3)]
    {
        let found = told.iter().filter(|line| line.contains(option)).count();
        assert_eq!(found, times, "{option}: {told:#?}");
    }
}

/// Sets an option of a socket that no program records, as fast as it can.
const LOOPS: &str = "
import socket, sys, time
one = socket.socket()
set = one.setsockopt
print('loops', file=sys.stderr, flush=True)
ends = time.monotonic() + 30
while time.monotonic() < ends:
    for _ in range(1000):
        set(6, 1, 1)
";

/// Opens and closes connections to itself as fast as it can, so many; ends without TIME_WAIT.
const CONNECTS: &str = "
import socket, struct, sys
listener = socket.socket()
listener.bind(('127.0.0.1', int(sys.argv[1])))
listener.listen(1000)
for _ in range(int(sys.argv[2])):
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    client.close()
    server.close()
";

#[test]
fn root_options_of_strangers_leave_openings_their_room() {
    let Some(_turn) = turn::take() else { return };
    const CONNECTIONS: usize = 4000;
    let port = free_port().to_string();
    let recorder = Recorder::start(&["--port", &port], None);
    let looping = [0, 1]
        .map(|_| Background::start_until(&mut command(&python(LOOPS, &[])), "-KILL", "loops"));
    let connects = python(CONNECTS, &[&port, &CONNECTIONS.to_string()]);
    stdout_of(&command(&connects).output().expect("python is there"));
    drop(looping);
    let recording = recorder.stop();
    assert_eq!(recording.report.connections().len(), CONNECTIONS, "{}", recording.report.notes());
    assert!(!recording.report.notes().contains("opening was lost"), "{}", recording.report.notes());
}

/// Sets an option of two recorded sockets so often, as fast as it can, and meanwhile opens connections.
const SETS_WHILE_RECORDED: &str = "
import os, socket, struct, sys
listener = socket.socket()
listener.bind(('127.0.0.1', int(sys.argv[1])))
listener.listen(1000)
def pair():
    client = socket.create_connection(listener.getsockname())
    return client, listener.accept()[0]
loops = []
for _ in range(2):
    one, other = pair()
    loop = os.fork()
    if not loop:
        for _ in range(int(sys.argv[2])): one.setsockopt(6, 1, 1)
        os._exit(0)
    loops.append(loop)
for _ in range(int(sys.argv[3])):
    client, server = pair()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    client.close()
    server.close()
for loop in loops: os.waitpid(loop, 0)
";

#[test]
fn root_options_that_find_no_room_are_counted_and_take_none_from_openings() {
    let Some(_turn) = turn::take() else { return };
    const CONNECTIONS: usize = 1500;
    const TIMES: usize = 100_000;
    let port = free_port().to_string();
    let recorder = Recorder::start(&["--port", &port], None);
    let sets = python(SETS_WHILE_RECORDED, &[&port, &TIMES.to_string(), &CONNECTIONS.to_string()]);
    stdout_of(&command(&sets).output().expect("python is there"));
    let recording = recorder.stop();
    let notes = recording.report.notes();
    assert_eq!(recording.report.connections().len(), CONNECTIONS + 2, "{notes}");
    assert!(!notes.contains("opening was lost"), "{notes}");
    let shown = options(&recording).len();
    let missed = notes.split_once("counted as missed: ");
    let missed = missed.map_or(0, |(_, after)| {
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        after[..digits].parse::<usize>().expect("a count")
    });
    assert_eq!(shown + missed, 2 * TIMES + CONNECTIONS, "{notes}");
}

/// Sets an option of a connected socket that no port picks; prints the bytes that the socket has for options,
/// before and after (`SO_MEMINFO`, `SK_MEMINFO_OPTMEM`).
const OPTION_OF_A_CONNECTED_SOCKET: &str = "
import socket, struct
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
def option_bytes():
 return struct.unpack('9I', client.getsockopt(socket.SOL_SOCKET, 55, 36))[6]
before = option_bytes()
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(before, option_bytes())
";

#[test]
fn root_a_connected_socket_that_nothing_can_pick_takes_no_memory_for_its_options() {
    let Some(_turn) = turn::take() else { return };
    let port = free_port().to_string();
    for (so_log, takes_memory) in [("off", false), ("own", true)] {
        let recorder = Recorder::start(&["--port", &port, "--so-log", so_log], None);
        let asking = words(&["python3", "-c", OPTION_OF_A_CONNECTED_SOCKET]);
        let said = stdout_of(&command(&asking).output().expect("python3 is installed"));
        recorder.end();
        let bytes: Vec<u32> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert_eq!(bytes[1] > bytes[0], takes_memory, "{so_log}: {said}");
    }
}
