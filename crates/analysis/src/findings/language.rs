//! Advice in the terms of a program's language, by the name of its process.
//!
//! A table: each advice is one entry. The names are those of `/proc/PID/comm`, which for some runtimes is a
//! thread's.

use sockscope_record::Process;

/// Subject of the advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    /// Accept connections sooner.
    Accept,
    /// Read a request to its end before the socket is closed.
    ReadToEnd,
    /// Watch the work of the process PID.
    Watch,
    /// Send the next request on the same connection.
    Reuse,
    /// Leave a connection open after an answer.
    KeepAlive,
    /// Read much at a time.
    BufferReads,
}

struct Advice {
    topic: Topic,
    /// A process has one of these names, also with a version or number behind it, as `python3.12`.
    comms: &'static [&'static str],
    text: &'static str,
}

const PYTHON: &[&str] = &["python", "gunicorn", "uvicorn", "uwsgi"];
const NODE: &[&str] = &["node", "MainThread"];
const JAVA: &[&str] = &["java", "pool", "http-nio", "HTTP-Dispatcher"];
const NGINX: &[&str] = &["nginx"];
const REDIS: &[&str] = &["redis-server", "valkey-server"];
const APACHE: &[&str] = &["apache2", "httpd"];
const PHP: &[&str] = &["php", "php-fpm"];
const POSTGRES: &[&str] = &["postgres", "postmaster"];

const TABLE: &[Advice] = &[
    Advice {
        topic: Topic::Accept,
        comms: PYTHON,
        text: "more threads or workers: ThreadingMixIn, gunicorn --threads; the backlog of \
               socketserver is request_queue_size",
    },
    Advice {
        topic: Topic::Accept,
        comms: NODE,
        text: "shorter work in each turn of the event loop, or the cluster module; the backlog is an \
               argument of server.listen",
    },
    Advice {
        topic: Topic::Accept,
        comms: JAVA,
        text: "a thread that only accepts, and a larger pool behind it; the backlog is an argument of \
               ServerSocket, in Tomcat acceptCount",
    },
    Advice {
        topic: Topic::Accept,
        comms: NGINX,
        text: "more worker_processes; the backlog is a parameter of the listen directive",
    },
    Advice {
        topic: Topic::Accept,
        comms: REDIS,
        text: "no command that runs for long (SLOWLOG GET); the backlog is tcp-backlog",
    },
    Advice {
        topic: Topic::Accept,
        comms: POSTGRES,
        text: "a pool of connections in front of it (pgbouncer); max_connections bounds the backlog",
    },
    Advice {
        topic: Topic::ReadToEnd,
        comms: PYTHON,
        text: "read all of the request (Content-Length bytes of rfile) before the handler returns",
    },
    Advice {
        topic: Topic::ReadToEnd,
        comms: NODE,
        text: "consume the request (req.resume()) before the socket is destroyed",
    },
    Advice {
        topic: Topic::ReadToEnd,
        comms: JAVA,
        text: "read the request's InputStream to its end",
    },
    Advice { topic: Topic::ReadToEnd, comms: NGINX, text: "lingering_close always" },
    Advice {
        topic: Topic::Watch,
        comms: &["python"],
        text: "strace -f -r -p PID, perf trace -p PID, py-spy dump --pid PID",
    },
    Advice {
        topic: Topic::Reuse,
        comms: PYTHON,
        text: "one requests.Session, httpx.Client or http.client connection for all requests",
    },
    Advice {
        topic: Topic::Reuse,
        comms: NODE,
        text: "one http.Agent with keepAlive: true for all requests",
    },
    Advice {
        topic: Topic::Reuse,
        comms: JAVA,
        text: "one HttpClient, or a pool of connections; a response that is not read to its end closes \
               its connection",
    },
    Advice {
        topic: Topic::Reuse,
        comms: NGINX,
        text: "keepalive in the upstream block, proxy_http_version 1.1 and an empty Connection header",
    },
    Advice {
        topic: Topic::Reuse,
        comms: PHP,
        text: "persistent connections (PDO::ATTR_PERSISTENT, pconnect) or one curl handle",
    },
    Advice { topic: Topic::Reuse, comms: &["curl"], text: "all URLs in one call of curl" },
    Advice { topic: Topic::Reuse, comms: &["ab"], text: "ab -k" },
    Advice {
        topic: Topic::KeepAlive,
        comms: &["gunicorn"],
        text: "a worker class that keeps connections (gthread), and --keep-alive",
    },
    Advice {
        topic: Topic::KeepAlive,
        comms: PYTHON,
        text: "protocol_version = \"HTTP/1.1\" in a handler of http.server",
    },
    Advice {
        topic: Topic::KeepAlive,
        comms: NODE,
        text: "server.keepAliveTimeout above the pause between two requests",
    },
    Advice {
        topic: Topic::KeepAlive,
        comms: JAVA,
        text: "in Tomcat keepAliveTimeout and maxKeepAliveRequests",
    },
    Advice {
        topic: Topic::KeepAlive,
        comms: NGINX,
        text: "keepalive_timeout above 0, and a larger keepalive_requests",
    },
    Advice {
        topic: Topic::KeepAlive,
        comms: APACHE,
        text: "KeepAlive On, and a larger MaxKeepAliveRequests",
    },
    Advice {
        topic: Topic::BufferReads,
        comms: PYTHON,
        text: "socket.makefile(\"rb\"), or recv(65536) into a buffer of its own",
    },
    Advice { topic: Topic::BufferReads, comms: JAVA, text: "BufferedInputStream" },
];

/// The same of a program of any language.
fn of_any(topic: Topic) -> &'static str {
    match topic {
        Topic::Accept => "a thread or process that only calls accept() and hands over",
        Topic::ReadToEnd => "read() until the message is complete",
        Topic::Watch => "strace -f -r -p PID, perf trace -p PID",
        Topic::Reuse => "a client or pool that lives longer than one request",
        Topic::KeepAlive => "read the next request in place of close()",
        Topic::BufferReads => "fread() with setvbuf(), BufReader, bufio.Reader",
    }
}

/// The method of a program of this name; of an unknown one, that of any program.
pub(super) fn advice(comm: Option<&str>, topic: Topic) -> &'static str {
    let mut table = TABLE.iter().filter(|advice| advice.topic == topic);
    let of_comm = comm.and_then(|comm| table.find(|advice| advice.is_for(comm)));
    of_comm.map_or(of_any(topic), |advice| advice.text)
}

/// Commands that show the work of the process.
pub(super) fn watch(process: &Process) -> String {
    advice(Some(&process.comm), Topic::Watch).replace("PID", &process.pid.to_string())
}

impl Advice {
    fn is_for(&self, comm: &str) -> bool {
        self.comms.iter().any(|name| {
            let rest = comm.strip_prefix(name).map(|rest| rest.chars().next());
            rest.is_some_and(|next| next.is_none_or(|it| !it.is_alphabetic() && it != '_'))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(comm: &str) -> &'static str {
        advice(Some(comm), Topic::Accept)
    }

    #[test]
    fn a_language_is_known_by_the_name_of_its_process() {
        assert_eq!(accepts("python3.12"), accepts("gunicorn: maste"));
        assert_eq!(accepts("pool-1-thread-1"), accepts("java"));
        assert_ne!(accepts("nginx"), of_any(Topic::Accept));
    }

    #[test]
    fn any_other_program_has_the_advice_for_all() {
        for comm in ["nodeserver", "pythonic", "node_exporter", "curl", ""] {
            assert_eq!(accepts(comm), of_any(Topic::Accept), "{comm}");
        }
        assert_eq!(advice(None, Topic::Accept), of_any(Topic::Accept));
    }
}
