//! Connections of a bundle, on the command line.

use std::str::FromStr;

/// Connections by `--connection`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Those with these numbers.
    Numbers(Vec<u32>),
    /// All between the two programs of the one with the flow of most bytes.
    All,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let numbers = text.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>();
        let mut numbers = numbers.map_err(|_| "give a number, 1,2,3 or all".to_owned())?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Self::Numbers(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_chosen_by_number_or_all() {
        assert_eq!("all".parse(), Ok(Choice::All));
        assert_eq!("7,3,7".parse(), Ok(Choice::Numbers(vec![3, 7])));
        assert_eq!("some".parse::<Choice>(), Err("give a number, 1,2,3 or all".to_owned()));
    }
}
