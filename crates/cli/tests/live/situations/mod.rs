//! The situations in which people first use the program, each with real programs and the report that it must give.
//!
//! A test runs what the user runs. It reads the first 12 lines of the text report at 80 columns. These lines have the
//! right cause or say that nothing is wrong; they name side, process and pid. A figure in them is near to what the
//! workload measured itself, and nothing in them blames what is not the cause.
//!
//! | number | situation | test |
//! |---:|---|---|
//! | 1 | a newcomer: `doctor`, `demo` | `newcomers` here; all of it in `faces` |
//! | 2 | Python's `http.server`, kept connection | `http` |
//! | 3 | the same without the stall | `http` |
//! | 4 | one curl to a slow server | `http` |
//! | 5 | a server that hangs | `http` |
//! | 6 | `HttpServer` and `HttpClient` of the JDK | `runtimes` |
//! | 7 | Node with a blocked event loop | `runtimes` |
//! | 8 | Go: slow reader, small send buffer, many flushes | `runtimes` |
//! | 9 | gRPC, in turn and overlapping | `runtimes` |
//! | 10 | server-sent events | `http` |
//! | 11 | PostgreSQL: N+1, no index | `databases` |
//! | 12 | nginx before a slow Python | `http` |
//! | 13 | iperf3 through a limited interface | `network` |
//! | 14 | the same on eight connections | `network` |
//! | 15 | iperf3 through a packet filter that drops | `network` |
//! | 16 | iperf3 over UDP into a limited interface | `network` |
//! | 17 | redis-benchmark on 200 connections | `databases` |
//! | 18 | wrk on 200 connections to nginx | `http` |
//! | 19 | ab on 5,000 connections to nginx | `http` |
//! | 20 | a redis that one Lua script holds | `databases` |
//! | 21 | a SYN that a filter drops, a full accept queue | `refusals`; each rule in `turned_away` |
//! | 22 | a student: `lab list`, `run`, `check` | `lab` of crates/lab-cli; the claims in crates/claims |
//! | 23 | a researcher: the bundle in pyarrow | `newcomers` |
//! | 24 | a capture file | `newcomers` |
//! | 25 | two hosts, merged | `network` |
//! | 26 | no root, and typing errors | `newcomers`; more in `cli` |
//!
//! Those that take long run in `scripts/soak situations` alone, which prints a table of all. A situation whose verdict other
//! programs hide, because they take the CPUs, is recorded again a few times.

mod answer;
mod http_service;
mod run_delay;
mod situation;

mod databases;
mod http;
mod network;
mod newcomers;
mod refusals;
mod runtimes;
