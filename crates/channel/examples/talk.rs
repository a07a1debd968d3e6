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
        ["answer"] => answer(),
        ["ask", question] => ask(question),
        _ => {
            eprintln!("usage: talk answer | talk ask QUESTION");
            std::process::exit(2)
        }
    }
}

/// Says how long each question is, for ever.
fn answer() -> Result<(), Error> {
    let mut receiver = Receiver::bind(&Address::new("talk")?, Settings::default())?;
    loop {
        let message = match receiver.receive(Wait::FUTEX) {
            Ok(message) => String::from_utf8_lossy(&message.to_vec()).into_owned(),
            // Who asked has its answer and is gone.
            Err(Error::PeerGone { .. }) => continue,
            Err(error) => return Err(error),
        };
        let Some((back, question)) = message.split_once('\n') else { continue };
        let answer = format!("{} bytes", question.len());
        let mut sender = Sender::to(Address::new(back)?, Settings::default())?;
        if let Err(error) = sender.send(answer.as_bytes(), Wait::NOT) {
            eprintln!("talk: {error}");
        }
    }
}

/// Asks one question and prints the answer.
fn ask(question: &str) -> Result<(), Error> {
    let back = format!("talk-{}", std::process::id());
    let mut receiver = Receiver::bind(&Address::new(&back)?, Settings::default())?;
    let mut sender = Sender::to(Address::new("talk")?, Settings::default())?;
    sender.send(format!("{back}\n{question}").as_bytes(), Wait::FUTEX)?;
    let answer = receiver.receive(Wait::SOCKET)?;
    println!("{}", String::from_utf8_lossy(&answer.to_vec()));
    Ok(())
}
