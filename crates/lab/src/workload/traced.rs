//! A program whose system calls are listed, as trace(1) or strace would.

use sockscope_experiment::measurement::SystemCall;
use sockscope_sim::{Action, Program, ProgramContext};

use super::SharedLog;

/// Lists the system calls of the program inside.
pub(crate) struct Traced<P> {
    inner: P,
    log: SharedLog,
    open: Option<SystemCall>,
}

impl<P: Program> Traced<P> {
    pub(crate) fn new(inner: P, log: SharedLog) -> Self {
        Self { inner, log, open: None }
    }
}

impl<P: Program> Program for Traced<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if let Some(call) = self.open.take() {
            let returned = context.answer.bytes().into();
            self.log.borrow_mut().system_calls.push(SystemCall { returned, ..call });
        }
        let action = self.inner.next(context);
        let call = |(name, asked): (_, usize)| SystemCall {
            at_ns: context.now_ns,
            name,
            asked: asked as u64,
            returned: 0,
        };
        self.open = system_call(&action).map(call);
        action
    }
}

/// Name of the system call of an action, and octets asked for; `None` for other actions.
fn system_call(action: &Action) -> Option<(&'static str, usize)> {
    Some(match action {
        Action::Socket(_) => ("socket", 0),
        Action::Bind(..) => ("bind", 0),
        Action::Listen(..) => ("listen", 0),
        Action::Accept(_) => ("accept", 0),
        Action::Connect(..) => ("connect", 0),
        Action::Write(_, data) => ("write", data.len()),
        Action::Select(_) => ("select", 0),
        Action::Read(_, len) => ("read", *len),
        Action::SendTo(_, _, data) => ("sendto", data.len()),
        Action::ReceiveFrom(_, len) | Action::ReceiveWithin(_, len, _) => ("recvfrom", *len),
        Action::SetOption(..) | Action::Log(_) => ("setsockopt", 0),
        Action::Shutdown(..) => ("shutdown", 0),
        Action::Close(_) => ("close", 0),
        _ => return None,
    })
}
