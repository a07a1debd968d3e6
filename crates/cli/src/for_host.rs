//! `record --for-host`: the recorder that another host started by ssh (`with_hosts.rs`).
//!
//! It ends when its standard input ends. It ends as well when that has nothing for long: then the connection is
//! broken, also where the ssh server does not know it yet. It keeps nothing on this host.

use std::fs::{self, File};
use std::io::{self, Read, Write};

use sockscope_program::failure::Failure;
use sockscope_program::{pick::SoLogArg, temporary};
use sockscope_trace::Part;

use crate::args;
use crate::other_host::{BUNDLE, FAILED, OtherHost, say};
use crate::recording::{CommandOutput, Job};

/// Records for the other host and sends it the bundle.
pub fn serve(record: &args::Record) -> Result<(), Failure> {
    // The other host prints it, with the name of this one.
    recorded(record).or_else(|failure| say(&format!("{FAILED}{failure}")))
}

fn recorded(record: &args::Record) -> Result<(), Failure> {
    let folder = temporary::folder()?;
    let dir = folder.path().join("half.sockscope");
    let other = OtherHost::listen()?;
    let mut pick = record.pick.clone();
    pick.so_log = pick.so_log.or(Some(SoLogArg::Off));
    let job = Job {
        pick: &pick,
        how: record.how,
        command: &[],
        run_as: None,
        stdout: CommandOutput::Stdout,
        dir: &dir,
        duration: None,
        max_records: None,
        other: Some(&other),
    };
    let (_, failure) = job.record()?.ended();
    if let Some(failure) = failure {
        return Err(failure);
    }
    if other.is_silent() {
        return Err(Failure::new("the other host is silent"));
    }
    say(BUNDLE)?;
    let mut out = io::stdout().lock();
    for part in Part::ALL {
        let path = dir.join(part.file_name());
        let length = fs::metadata(&path).map(|metadata| metadata.len());
        let sent = length.and_then(|length| {
            out.write_all(&length.to_le_bytes())?;
            io::copy(&mut File::open(&path)?.take(length), &mut out)
        });
        sent.map_err(|error| Failure::output(&error))?;
    }
    out.flush().map_err(|error| Failure::output(&error))
}
