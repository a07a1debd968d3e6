//! Questions and answers between two processes:
//!
//! ```sh
//! cargo run -p sockscope-channel --example talk -- answer &
//! cargo run -p sockscope-channel --example talk -- ask "how long is this?"
//! ```
//!
//! The asking side is bound at an address of its own and names it in front of its question, so that
//! any number of processes can ask at once.

use sockscope_channel::{Address, Error, Receiver, Sender, Settings, Wait};

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["answer"] => answer_all(),
        ["ask", question] => ask(question),
        _ => {
            eprintln!("usage: talk answer | talk ask QUESTION");
            std::process::exit(2)
        }
    }
}

/// Answers each question with its length, for ever: a question cannot end this process.
fn answer_all() -> Result<(), Error> {
    let mut receiver = Receiver::bind(&Address::new("talk")?, Settings::default())?;
    loop {
        if let Err(error) = answer_next(&mut receiver)? {
            eprintln!("talk: {error}");
        }
    }
}

/// Answers the next question. The inner error concerns only the sender of that question: it broke the
/// protocol, or cannot be answered. The outer error concerns this end.
pub fn answer_next(receiver: &mut Receiver) -> Result<Result<(), Error>, Error> {
    let message = match receiver.receive(Wait::FUTEX) {
        Ok(message) => String::from_utf8_lossy(&message.to_vec()).into_owned(),
        // The asking process has its answer and is gone.
        Err(Error::PeerGone { .. }) => return Ok(Ok(())),
        // It was detached; the others go on.
        Err(error @ (Error::Misbehaved { .. } | Error::BadSetup { .. })) => return Ok(Err(error)),
        Err(error) => return Err(error),
    };
    let Some((back, question)) = message.split_once('\n') else { return Ok(Ok(())) };
    Ok(reply(back, &format!("{} bytes", question.len())))
}

/// Sends an answer to the address that a question named, which may be any words.
fn reply(back: &str, answer: &str) -> Result<(), Error> {
    let mut sender = Sender::to(Address::new(back)?, Settings::default())?;
    sender.send(answer.as_bytes(), Wait::NOT).map(|_| ())
}

/// Asks one question and prints the answer.
fn ask(question: &str) -> Result<(), Error> {
    let back = format!("talk-{}", std::process::id());
    let mut receiver = Receiver::bind(&Address::new(&back)?, Settings::default())?;
    let mut sender = Sender::to(Address::new("talk")?, Settings::default())?;
    sender.send(format!("{back}\n{question}").as_bytes(), Wait::FUTEX)?;
    println!("{}", String::from_utf8_lossy(&answer(&mut receiver)?));
    Ok(())
}

/// The next message. Others can send to the address, too: one that breaks the protocol or leaves is passed
/// over.
pub fn answer(receiver: &mut Receiver) -> Result<Vec<u8>, Error> {
    loop {
        match receiver.receive(Wait::SOCKET) {
            Ok(answer) => return Ok(answer.to_vec()),
            Err(
                error
                @ (Error::Misbehaved { .. } | Error::BadSetup { .. } | Error::PeerGone { .. }),
            ) => eprintln!("talk: {error}"),
            Err(error) => return Err(error),
        }
    }
}
