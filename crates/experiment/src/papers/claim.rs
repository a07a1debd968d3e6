//! The register of claims: `papers/claims.toml`, read and checked for sense.

use serde::Deserialize;
use sockscope_record::named;

use super::files::{CLAIMS, PAPERS};
use crate::error::{Error, Result};

/// Path of the register in the project, for messages.
const FILE: &str = "papers/claims.toml";

/// The only form of the register so far.
const FORMAT: u32 = 1;

/// All claims, in the order of the file.
#[derive(Debug, Clone)]
pub struct Claims(Vec<Claim>);

/// One claim of a paper that a run can check. Fields are explained at the head of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `paper/section-letter`.
    pub id: String,
    /// What form the claim has.
    pub kind: ClaimKind,
    /// What agreement is worth.
    pub role: Role,
    /// The claim in our words.
    pub statement: String,
    /// What the paper says, in `unit`; empty for shapes and orderings.
    #[serde(default)]
    pub values: Vec<f64>,
    /// A second row of values, of the other protocol.
    #[serde(default)]
    pub values_udp: Vec<f64>,
    /// Lower bound of a range.
    pub low: Option<f64>,
    /// Upper bound of a range.
    pub high: Option<f64>,
    /// Unit of the values.
    pub unit: Option<String>,
    /// How far a run may be off, as a share of the paper's value.
    pub tol_rel: Option<f64>,
    /// How far a run may be off, in `unit`; 0 is exact.
    pub tol_abs: Option<f64>,
    /// Under what conditions it was measured.
    pub condition: String,
    /// Where in the paper it stands.
    pub source: String,
    /// Where it can be checked.
    pub check: Where,
    /// What a modern Linux machine should show.
    pub live: Live,
    /// An inconsistency of the paper, or a limit of the scan.
    pub flag: Option<String>,
    /// The run that would check it.
    pub how: String,
}

/// What form a claim has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimKind {
    /// A measured number.
    Number,
    /// The form of a curve or of behaviour.
    Shape,
    /// A quotient of two numbers.
    Ratio,
    /// A number of things.
    Count,
    /// Which is larger.
    Ordering,
}

/// What agreement is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A constant of the design: a model that has it otherwise is a different system.
    Definition,
    /// A cost that a model takes in: agreement is no evidence.
    Input,
    /// Follows from the mechanism: a model can get it wrong.
    Prediction,
}

named! {
    Role {
        Definition => "definition",
        Input => "input",
        Prediction => "prediction",
    }
}

/// Where a claim can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Where {
    /// In the model only.
    Model,
    /// On a live machine only.
    Live,
    /// In both.
    Both,
}

/// What a modern Linux machine should show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Live {
    /// The same.
    Holds,
    /// Something else of the kind.
    Changed,
    /// Nothing of it.
    Gone,
    /// The question has no sense there.
    #[serde(rename = "n/a")]
    NotApplicable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Register {
    format: u32,
    claim: Vec<Claim>,
}

impl Claims {
    /// The register that the project carries.
    ///
    /// # Errors
    ///
    /// As [`Claims::parse`]; a test keeps the built-in register free of them.
    pub fn builtin() -> Result<Self> {
        Self::parse(CLAIMS)
    }

    /// Reads a register.
    ///
    /// # Errors
    ///
    /// When it is not TOML of this form, an id stands twice or names no paper, or a claim's values,
    /// range and tolerance do not go together.
    pub fn parse(text: &str) -> Result<Self> {
        let register: Register =
            toml::from_str(text).map_err(|error| Error::toml(FILE, text, &error))?;
        if register.format != FORMAT {
            let problem = format!("format {}: this release reads {FORMAT}", register.format);
            return Err(Error::file(FILE, problem));
        }
        for (at, claim) in register.claim.iter().enumerate() {
            let before = &register.claim[..at];
            claim
                .validate(before)
                .map_err(|problem| Error::file(FILE, format!("claim `{}`: {problem}", claim.id)))?;
        }
        Ok(Self(register.claim))
    }

    /// All claims, or those of one paper, in the order of the file.
    pub fn of(&self, paper: Option<&str>) -> impl Iterator<Item = &Claim> {
        let paper = paper.map(str::to_owned);
        self.0.iter().filter(move |claim| paper.as_ref().is_none_or(|it| claim.paper() == it))
    }

    /// The claim with this id.
    pub fn claim(&self, id: &str) -> Option<&Claim> {
        self.0.iter().find(|claim| claim.id == id)
    }
}

impl Claim {
    /// The paper: what stands before the slash of the id.
    pub fn paper(&self) -> &str {
        self.id.split_once('/').map_or("", |(paper, _)| paper)
    }

    /// How far a run's value may be from `expected`, in the claim's unit. With neither tolerance
    /// given the claim is of a form that has none, and the value must agree exactly.
    pub fn tolerance(&self, expected: f64) -> f64 {
        let relative = self.tol_rel.unwrap_or(0.0) * expected.abs();
        self.tol_abs.unwrap_or(0.0).max(relative)
    }

    fn validate(&self, before: &[Self]) -> std::result::Result<(), String> {
        if !PAPERS.contains(&self.paper()) {
            return Err(format!("expected `{}` before the slash", PAPERS.join("`, `")));
        }
        if before.iter().any(|other| other.id == self.id) {
            return Err("the id stands twice".to_owned());
        }
        if self.low.is_some() != self.high.is_some() || self.low > self.high {
            return Err("expected `low` not above `high`".to_owned());
        }
        let numbers = self.values.iter().chain(&self.values_udp);
        let tolerances = [self.tol_rel, self.tol_abs];
        let all = numbers.copied().chain(tolerances.into_iter().flatten());
        if !all.clone().all(f64::is_finite)
            || tolerances.iter().any(|it| *it < Some(0.0) && it.is_some())
        {
            return Err("expected finite values and tolerances not below 0".to_owned());
        }
        if self.statement.is_empty() || self.source.is_empty() || self.how.is_empty() {
            return Err("expected a statement, its source and how to check it".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims_per_paper() -> Vec<usize> {
        let claims = Claims::builtin().unwrap();
        PAPERS.iter().map(|paper| claims.of(Some(paper)).count()).collect()
    }

    #[test]
    fn the_builtin_register_is_whole() {
        assert_eq!(PAPERS, ["sunos-ipc", "bsd-buffers", "protocol-choice", "layering"]);
        assert_eq!(claims_per_paper(), [63, 32, 38, 21]);
        assert_eq!(Claims::builtin().unwrap().of(None).count(), 154);
    }

    #[test]
    fn the_wider_of_two_tolerances_counts() {
        let claims = Claims::builtin().unwrap();
        let tolerance = |id, expected| claims.claim(id).unwrap().tolerance(expected);
        assert_eq!(tolerance("bsd-buffers/T3-a", 97158.0), 0.02 * 97158.0);
        assert_eq!(tolerance("layering/T3-b", 200.0), 15.0);
        assert_eq!(tolerance("bsd-buffers/4.3-a", 10000.0), 0.0);
    }

    fn problem(change: (&str, &str)) -> String {
        let claim = "format = 1\n[[claim]]\nid = \"layering/x\"\nkind = \"count\"\nrole = \"input\"\n\
                     statement = \"s\"\nvalues = [1]\nlow = 1\nhigh = 2\ntol_abs = 0\n\
                     condition = \"c\"\nsource = \"s\"\ncheck = \"model\"\nlive = \"n/a\"\nhow = \"h\"\n";
        assert!(Claims::parse(claim).is_ok());
        Claims::parse(&claim.replace(change.0, change.1)).unwrap_err().to_string()
    }

    #[test]
    fn claims_without_sense_are_refused() {
        assert!(problem(("layering/x", "laying/x")).contains("before the slash"));
        assert!(problem(("high = 2", "high = 0")).contains("`low` not above `high`"));
        assert!(problem(("high = 2", "")).contains("`low` not above `high`"));
        assert!(problem(("tol_abs = 0", "tol_abs = -1")).contains("not below 0"));
        assert!(problem(("[1]", "[nan]")).contains("finite"));
        assert!(problem(("how = \"h\"", "how = \"\"")).contains("how to check it"));
        assert!(problem(("kind = \"count\"", "kind = \"feeling\"")).contains("feeling"));
        assert!(problem(("format = 1", "format = 2")).contains("this release reads 1"));
    }
}
