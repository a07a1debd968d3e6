//! The planted troubles: which server has them, and what the report has to say.

/// A trouble of a server.
pub struct Cell {
    /// Name of the trouble, as `tests/workloads/matrix/troubles.py` has it.
    pub trouble: &'static str,
    /// The server that has it: a program of `tests/workloads/matrix`, or one that many people run.
    pub server: &'static str,
    /// The finding that is the verdict.
    pub verdict: &'static str,
    /// The side to change.
    pub side: &'static str,
    /// Whether the finding names the process: the cause of some is no program's.
    pub names_process: bool,
    /// The number of the finding that the workload measured too.
    pub measure: Measure,
    /// Runs with the short form too.
    pub is_smoke: bool,
}

/// What of a finding is compared with the workload's own measurement. Costs and counts of several connections are
/// added up on both sides.
#[derive(Clone, Copy)]
pub enum Measure {
    /// Its cost: time in which a caller waited.
    Cost,
    /// Its cost, where the waits of callers at once are added up.
    Sum,
    /// How often it happened: it has no cost.
    Count,
}

use Measure::{Cost, Count, Sum};

/// All cells, trouble by trouble.
pub const ALL: &[Cell] = &[
    cell("split-write", "c", "nagle-delayed-ack", "server", Cost).smoke(),
    cell("split-write", "threads", "nagle-delayed-ack", "server", Cost),
    cell("split-write", "asyncio", "nagle-delayed-ack", "server", Cost),
    cell("split-write", "node", "nagle-delayed-ack", "server", Cost),
    cell("split-write", "java", "nagle-delayed-ack", "server", Cost),
    cell("split-write", "go", "nagle-delayed-ack", "server", Cost),
    cell("split-write", "nginx", "nagle-delayed-ack", "client", Cost),
    cell("split-write", "redis", "nagle-delayed-ack", "client", Cost),
    cell("split-write", "postgres", "nagle-delayed-ack", "client", Cost),
    cell("slow-service", "c", "slow-service", "server", Cost),
    cell("slow-service", "threads", "slow-service", "server", Cost),
    cell("slow-service", "asyncio", "slow-service", "server", Cost),
    cell("slow-service", "node", "slow-service", "server", Cost),
    cell("slow-service", "java", "slow-service", "server", Cost),
    cell("slow-service", "go", "slow-service", "server", Cost),
    cell("slow-service", "nginx", "slow-service", "server", Cost),
    cell("slow-service", "redis", "slow-service", "server", Cost),
    cell("slow-service", "postgres", "slow-service", "server", Cost),
    cell("one-slow", "c", "slow-service", "server", Cost),
    cell("one-slow", "threads", "slow-service", "server", Cost),
    cell("one-slow", "asyncio", "slow-service", "server", Cost),
    cell("one-slow", "node", "slow-service", "server", Cost),
    cell("one-slow", "java", "slow-service", "server", Cost),
    cell("one-slow", "go", "slow-service", "server", Cost),
    cell("one-slow", "nginx", "slow-service", "server", Cost),
    cell("one-slow", "redis", "slow-service", "server", Cost).smoke(),
    cell("one-slow", "postgres", "slow-service", "server", Cost),
    cell("late-caller", "c", "slow-reader", "client", Cost),
    cell("late-caller", "threads", "slow-reader", "client", Cost),
    cell("late-caller", "asyncio", "slow-reader", "client", Cost),
    cell("late-caller", "node", "slow-reader", "client", Cost),
    cell("late-caller", "java", "slow-reader", "client", Cost),
    cell("late-caller", "go", "slow-reader", "client", Cost),
    cell("late-caller", "nginx", "slow-reader", "client", Cost),
    cell("late-caller", "redis", "slow-reader", "client", Cost),
    cell("late-caller", "postgres", "slow-reader", "client", Cost),
    cell("freeze", "c", "head-of-line", "server", Cost),
    cell("freeze", "threads", "slow-service", "server", Sum),
    cell("freeze", "asyncio", "head-of-line", "server", Cost).smoke(),
    cell("freeze", "node", "head-of-line", "server", Cost),
    cell("freeze", "java", "slow-service", "server", Sum),
    cell("freeze", "go", "slow-service", "server", Sum),
    cell("freeze", "redis", "head-of-line", "server", Cost),
    cell("freeze", "postgres", "slow-service", "server", Sum),
    cell("unanswered", "c", "unanswered", "server", Cost),
    cell("unanswered", "threads", "unanswered", "server", Cost),
    cell("unanswered", "asyncio", "unanswered", "server", Cost),
    cell("unanswered", "node", "unanswered", "server", Cost).smoke(),
    cell("unanswered", "java", "unanswered", "server", Cost),
    cell("unanswered", "go", "unanswered", "server", Cost),
    cell("unanswered", "nginx", "unanswered", "server", Cost),
    cell("unanswered", "redis", "unanswered", "server", Cost),
    cell("unanswered", "postgres", "unanswered", "server", Cost),
    cell("upstream-wait", "c", "slow-service", "server", Cost),
    cell("upstream-wait", "threads", "slow-service", "server", Cost),
    cell("upstream-wait", "asyncio", "slow-service", "server", Cost),
    cell("upstream-wait", "node", "slow-service", "server", Cost),
    cell("upstream-wait", "java", "slow-service", "server", Cost),
    cell("upstream-wait", "go", "slow-service", "server", Cost),
    cell("upstream-wait", "nginx", "slow-service", "server", Cost),
    cell("upstream-wait", "haproxy", "slow-service", "server", Cost),
    cell("n-plus-one", "c", "n-plus-one", "server", Cost),
    cell("n-plus-one", "threads", "n-plus-one", "server", Cost).smoke(),
    cell("n-plus-one", "asyncio", "n-plus-one", "server", Cost),
    cell("n-plus-one", "node", "n-plus-one", "server", Cost),
    cell("n-plus-one", "java", "n-plus-one", "server", Cost),
    cell("n-plus-one", "go", "n-plus-one", "server", Cost),
    cell("connection-churn", "c", "connection-churn", "client", Cost),
    cell("connection-churn", "threads", "connection-churn", "client", Cost),
    cell("connection-churn", "asyncio", "connection-churn", "client", Cost),
    cell("connection-churn", "node", "connection-churn", "client", Cost),
    cell("connection-churn", "java", "connection-churn", "client", Cost),
    cell("connection-churn", "go", "connection-churn", "client", Cost),
    cell("connection-churn", "nginx", "connection-churn", "client", Cost),
    cell("connection-churn", "redis", "connection-churn", "client", Cost),
    cell("connection-churn", "postgres", "connection-churn", "client", Cost),
    cell("slow-reader", "c", "slow-reader", "server", Cost),
    cell("slow-reader", "threads", "slow-reader", "server", Cost),
    cell("slow-reader", "asyncio", "slow-reader", "server", Cost),
    cell("slow-reader", "node", "slow-reader", "server", Cost),
    cell("slow-reader", "java", "slow-reader", "server", Cost),
    cell("slow-reader", "go", "slow-reader", "server", Cost),
    cell("slow-reader", "nginx", "slow-reader", "client", Cost),
    cell("slow-reader", "redis", "slow-reader", "client", Cost),
    cell("slow-reader", "postgres", "slow-reader", "client", Cost),
    cell("accept-queue", "c", "accept-queue-full", "server", Cost),
    cell("accept-queue", "threads", "accept-queue-full", "server", Cost),
    cell("accept-queue", "asyncio", "accept-queue-full", "server", Cost),
    cell("accept-queue", "node", "accept-queue-full", "server", Cost),
    cell("accept-queue", "java", "accept-queue-full", "server", Cost),
    cell("accept-queue", "go", "accept-queue-full", "server", Cost),
    cell("accept-queue", "nginx", "accept-queue-full", "server", Cost),
    cell("accept-queue", "redis", "accept-queue-full", "server", Cost),
    // The process that listens is not recorded.
    anonymous("accept-queue", "postgres", "accept-queue-full", "server", Cost),
    anonymous("refused", "c", "connection-refused", "server", Count),
    anonymous("refused", "threads", "connection-refused", "server", Count),
    anonymous("refused", "asyncio", "connection-refused", "server", Count),
    anonymous("refused", "node", "connection-refused", "server", Count),
    anonymous("refused", "java", "connection-refused", "server", Count),
    anonymous("refused", "go", "connection-refused", "server", Count),
    anonymous("refused", "nginx", "connection-refused", "server", Count),
    anonymous("refused", "redis", "connection-refused", "server", Count),
    anonymous("refused", "postgres", "connection-refused", "server", Count),
    cell("reset-unread", "c", "reset-unread", "server", Count),
    cell("reset-unread", "threads", "reset-unread", "server", Count),
    cell("reset-unread", "asyncio", "reset-unread", "server", Count),
    cell("reset-unread", "node", "reset-unread", "server", Count),
    cell("reset-unread", "go", "reset-unread", "server", Count),
    cell("reset-unread", "redis", "reset-unread", "server", Count).smoke(),
    // Its process ends before the caller knows its number.
    anonymous("reset-unread", "postgres", "reset-unread", "server", Count),
    cell("streamed", "c", "slow-service", "server", Cost),
    cell("streamed", "threads", "slow-service", "server", Cost),
    cell("streamed", "asyncio", "slow-service", "server", Cost),
    cell("streamed", "node", "slow-service", "server", Cost),
    cell("streamed", "java", "slow-service", "server", Cost),
    cell("streamed", "go", "slow-service", "server", Cost),
    cell("streamed", "nginx", "slow-service", "server", Cost),
    cell("streamed", "postgres", "slow-service", "server", Cost),
    cell("small-reads", "c", "small-reads", "server", Count),
    cell("small-reads", "threads", "small-reads", "server", Count),
    cell("small-reads", "java", "small-reads", "server", Count),
    cell("small-reads", "go", "small-reads", "server", Count),
    cell("small-reads", "nginx", "small-reads", "client", Count),
    cell("small-reads", "redis", "small-reads", "client", Count),
    anonymous("dropped", "c", "retransmission", "client", Cost),
    anonymous("dropped", "threads", "retransmission", "client", Cost),
    anonymous("dropped", "asyncio", "retransmission", "client", Cost),
    anonymous("dropped", "node", "retransmission", "client", Cost),
    anonymous("dropped", "java", "retransmission", "client", Cost),
    anonymous("dropped", "go", "retransmission", "client", Cost),
    anonymous("dropped", "nginx", "retransmission", "client", Cost),
    anonymous("dropped", "redis", "retransmission", "client", Cost),
    anonymous("dropped", "postgres", "retransmission", "client", Cost),
    anonymous("syn-dropped", "c", "syn-dropped", "server", Cost),
    anonymous("syn-dropped", "threads", "syn-dropped", "server", Cost),
    anonymous("syn-dropped", "asyncio", "syn-dropped", "server", Cost),
    anonymous("syn-dropped", "node", "syn-dropped", "server", Cost),
    anonymous("syn-dropped", "java", "syn-dropped", "server", Cost),
    anonymous("syn-dropped", "go", "syn-dropped", "server", Cost),
    anonymous("syn-dropped", "nginx", "syn-dropped", "server", Cost),
    anonymous("syn-dropped", "redis", "syn-dropped", "server", Cost),
    anonymous("syn-dropped", "postgres", "syn-dropped", "server", Cost),
    anonymous("slow-interface", "c", "interface-queue-limited", "server", Cost),
    anonymous("slow-interface", "threads", "interface-queue-limited", "server", Cost),
    anonymous("slow-interface", "asyncio", "interface-queue-limited", "server", Cost),
    anonymous("slow-interface", "node", "interface-queue-limited", "server", Cost),
    anonymous("slow-interface", "java", "interface-queue-limited", "server", Cost),
    anonymous("slow-interface", "go", "interface-queue-limited", "server", Cost),
    anonymous("slow-interface", "nginx", "interface-queue-limited", "server", Cost),
    anonymous("slow-interface", "redis", "interface-queue-limited", "server", Cost),
    anonymous("slow-interface", "postgres", "interface-queue-limited", "server", Cost),
    cell("send-buffer", "c", "send-buffer-limited", "server", Cost),
    cell("send-buffer", "threads", "send-buffer-limited", "server", Cost),
    cell("send-buffer", "asyncio", "send-buffer-limited", "server", Cost),
    cell("send-buffer", "java", "send-buffer-limited", "server", Cost),
    cell("send-buffer", "go", "send-buffer-limited", "server", Cost),
    cell("send-buffer", "nginx", "send-buffer-limited", "server", Cost),
];

/// Pairs of trouble and server that make no sense, and why.
pub const LEFT_OUT: &[(&str, &[&str], &str)] = &[
    ("freeze", &["nginx"], "no configuration blocks its process"),
    ("upstream-wait", &["redis", "postgres"], "it asks no other server"),
    ("n-plus-one", &["nginx"], "it asks its upstream once for each request"),
    ("n-plus-one", &["redis", "postgres"], "it asks no other server"),
    (
        "reset-unread",
        &["java"],
        "close() ends the stream first, so that the caller reads answer and end",
    ),
    ("reset-unread", &["nginx"], "it reads the rest of a request before it closes"),
    ("streamed", &["redis"], "it writes each answer whole"),
    (
        "small-reads",
        &["asyncio", "node"],
        "the runtime chooses the size of a read, and it is large",
    ),
    (
        "small-reads",
        &["postgres"],
        "it writes 8 KiB at a time, and a reader of 100 bytes may keep up",
    ),
    (
        "send-buffer",
        &["node", "redis", "postgres"],
        "it has no option for the size of the send buffer",
    ),
];

/// A cell whose finding names the process.
const fn cell(
    trouble: &'static str,
    server: &'static str,
    verdict: &'static str,
    side: &'static str,
    measure: Measure,
) -> Cell {
    Cell { trouble, server, verdict, side, names_process: true, measure, is_smoke: false }
}

/// A cell whose cause is no program's.
const fn anonymous(
    trouble: &'static str,
    server: &'static str,
    verdict: &'static str,
    side: &'static str,
    measure: Measure,
) -> Cell {
    Cell { names_process: false, ..cell(trouble, server, verdict, side, measure) }
}

impl Cell {
    /// The server, and the program without which the trouble cannot be planted.
    pub fn needs(&self) -> impl Iterator<Item = &'static str> {
        let tool = match self.trouble {
            "dropped" | "syn-dropped" => Some("nft"),
            "slow-interface" => Some("tc"),
            "connection-churn" | "send-buffer" => Some("ip"),
            _ => None,
        };
        [self.server].into_iter().chain(tool)
    }

    const fn smoke(self) -> Self {
        Self { is_smoke: true, ..self }
    }
}

/// The servers of the matrix. A proxy of its own, haproxy, has one trouble.
const SERVERS: [&str; 9] =
    ["c", "threads", "asyncio", "node", "java", "go", "nginx", "redis", "postgres"];

#[test]
fn each_trouble_has_each_server_or_a_reason_against_it() {
    let troubles: std::collections::BTreeSet<&str> = ALL.iter().map(|cell| cell.trouble).collect();
    assert!(troubles.len() >= 12, "{troubles:?}");
    for trouble in troubles {
        for server in SERVERS {
            let cells = ALL.iter().filter(|cell| (cell.trouble, cell.server) == (trouble, server));
            let is_left_out = |(name, servers, _): &&(&str, &[&str], &str)| {
                *name == trouble && servers.contains(&server)
            };
            let reasons = LEFT_OUT.iter().filter(is_left_out);
            assert_eq!(cells.count() + reasons.count(), 1, "{trouble} {server}");
        }
    }
}
