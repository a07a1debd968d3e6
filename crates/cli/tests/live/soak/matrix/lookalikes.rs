//! The healthy look-alikes: traffic in which no program costs its callers anything.

use super::judged::UNKNOWN;

/// Traffic that looks like a trouble.
pub struct LookAlike {
    /// Name of the traffic, as `tests/workloads/matrix/healthy.py` has it.
    pub shape: &'static str,
    /// The server.
    pub server: &'static str,
    /// The begin of the verdict.
    pub verdict: &'static str,
    /// Who has the time of the callers, where the verdict says so.
    pub whose: Option<&'static str>,
    /// Runs with the short form too.
    pub is_smoke: bool,
}

/// All of them.
pub const ALL: &[LookAlike] = &[
    healthy("split-nodelay", "c").smoke(),
    healthy("split-nodelay", "threads"),
    healthy("split-nodelay", "asyncio"),
    healthy("split-nodelay", "node"),
    healthy("split-nodelay", "java"),
    healthy("split-nodelay", "go"),
    waited("far-writes", "c", "the callers").smoke(),
    waited("far-writes", "redis", "the callers"),
    waited("far-writes", "nginx", "the callers"),
    healthy("pool", "nginx"),
    healthy("pool", "redis").smoke(),
    healthy("pool", "postgres"),
    healthy("at-once", "node"),
    healthy("at-once", "go"),
    healthy("pipelined", "redis"),
    healthy("pipelined", "threads"),
    healthy("large", "c"),
    healthy("large", "node"),
    healthy("large", "go"),
    healthy("large", "nginx").smoke(),
    healthy("large", "redis"),
    healthy("large", "postgres"),
    healthy("chunked", "asyncio"),
    healthy("chunked", "java"),
    healthy("chunked", "threads"),
    healthy("push", "node"),
    healthy("push", "go"),
    healthy("push", "asyncio"),
    healthy("idle", "java"),
    healthy("idle", "redis"),
    healthy("idle", "postgres"),
    healthy("few-short", "nginx"),
    healthy("few-short", "threads"),
    healthy("think", "postgres"),
    healthy("think", "go"),
    healthy("upload", "java"),
    healthy("upload", "asyncio"),
    waited("slow-upload", "c", "the callers"),
    waited("slow-upload", "node", "the callers"),
    healthy("batch", "redis"),
    waited("event", "node", "the server"),
    waited("event", "redis", "the server"),
];

/// Its callers wait for next to nothing.
const fn healthy(shape: &'static str, server: &'static str) -> LookAlike {
    LookAlike { shape, server, verdict: "nothing wrong found", whose: None, is_smoke: false }
}

/// Its callers wait, and for no cause: the verdict says whose the time is.
const fn waited(shape: &'static str, server: &'static str, whose: &'static str) -> LookAlike {
    let verdict = UNKNOWN;
    LookAlike { shape, server, verdict, whose: Some(whose), is_smoke: false }
}

impl LookAlike {
    const fn smoke(self) -> Self {
        Self { is_smoke: true, ..self }
    }
}
