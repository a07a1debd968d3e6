//! How much the agreement of a claim is worth: `papers/evidence.toml`, read and checked for sense.

use serde::Deserialize;
use sockscope_record::named;

use super::claim::{Claim, Claims, Role};
use crate::error::{Error, Result};

/// Path of the list in the project, for messages.
const FILE: &str = "papers/evidence.toml";

const TEXT: &str = include_str!("../../../../papers/evidence.toml");

/// The only form of the list so far.
const FORMAT: u32 = 1;

/// The reason of each claim of role `input`.
const IS_INPUT: &str = "an input of the model by its role in the register";

/// How a result that a claim is compared with arises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvidenceKind {
    /// A run computes it, and the check is as strict as the words of the claim.
    Found,
    /// The claim shares its number or its rule with an input of the model.
    PartlyTakenIn,
    /// It follows from constants of the design without a run.
    Arithmetic,
}

named! {
    EvidenceKind {
        Found => "found",
        PartlyTakenIn => "partly-taken-in",
        Arithmetic => "arithmetic",
    }
}

/// The evidence of one claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The claim.
    pub id: String,
    /// How its result arises.
    pub kind: EvidenceKind,
    /// Why it is not found; empty where it is.
    pub reason: String,
    /// Names of the inputs in `papers/inputs.toml` that the claim shares a number or a rule with.
    pub inputs: Vec<String>,
}

/// The evidence of every claim.
#[derive(Debug, Clone)]
pub struct EvidenceList(Vec<Evidence>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    format: u32,
    found: Vec<String>,
    partly_taken_in: Vec<Entry>,
    arithmetic: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    inputs: Vec<String>,
}

impl EvidenceList {
    /// The list that the project carries.
    ///
    /// # Errors
    ///
    /// As [`EvidenceList::parse`]; a test keeps the built-in list free of them.
    pub fn builtin() -> Result<Self> {
        Self::parse(TEXT, &Claims::builtin()?)
    }

    /// Reads a list for the claims of a register.
    ///
    /// # Errors
    ///
    /// When it is not TOML of this form, a claim of the register is missing or stands twice, an id is
    /// not in the register, a reason is missing, or a claim of role `input` is called otherwise than
    /// partly taken in.
    pub fn parse(text: &str, claims: &Claims) -> Result<Self> {
        let file: File = toml::from_str(text).map_err(|error| Error::toml(FILE, text, &error))?;
        if file.format != FORMAT {
            let problem = format!("format {}: this release reads {FORMAT}", file.format);
            return Err(Error::file(FILE, problem));
        }
        let found = file.found.into_iter().map(|id| Evidence {
            id,
            kind: EvidenceKind::Found,
            reason: String::new(),
            inputs: Vec::new(),
        });
        let of = |kind| {
            move |entry: Entry| Evidence {
                id: entry.id,
                kind,
                reason: entry.reason,
                inputs: entry.inputs,
            }
        };
        let partly = file.partly_taken_in.into_iter().map(of(EvidenceKind::PartlyTakenIn));
        let arithmetic = file.arithmetic.into_iter().map(of(EvidenceKind::Arithmetic));
        let mut list: Vec<_> = found.chain(partly).chain(arithmetic).collect();
        for at in 0..list.len() {
            let problem = problem_of(&list[at], &list[..at], claims);
            if let Some(problem) = problem {
                return Err(Error::file(FILE, format!("claim `{}`: {problem}", list[at].id)));
            }
        }
        let missing = claims.of(None).find(|claim| list.iter().all(|one| one.id != claim.id));
        if let Some(claim) = missing {
            return Err(Error::file(FILE, format!("claim `{}` is missing", claim.id)));
        }
        for one in &mut list {
            if one.reason.is_empty() && one.kind == EvidenceKind::PartlyTakenIn {
                IS_INPUT.clone_into(&mut one.reason);
            }
        }
        Ok(Self(list))
    }

    /// The evidence of a claim.
    ///
    /// # Panics
    ///
    /// When the claim is not of the register that the list was read for.
    pub fn of(&self, claim: &Claim) -> &Evidence {
        let found = self.0.iter().find(|one| one.id == claim.id);
        found.unwrap_or_else(|| panic!("no evidence of {}", claim.id))
    }

    /// Evidence of all claims, in the order of the file.
    pub fn all(&self) -> &[Evidence] {
        &self.0
    }
}

/// The first thing wrong with an entry.
fn problem_of(one: &Evidence, before: &[Evidence], claims: &Claims) -> Option<String> {
    let Some(claim) = claims.claim(&one.id) else {
        return Some("expected a claim of papers/claims.toml".to_owned());
    };
    if before.iter().any(|other| other.id == one.id) {
        return Some("the id stands twice".to_owned());
    }
    let is_input = claim.role == Role::Input;
    if is_input && one.kind != EvidenceKind::PartlyTakenIn {
        return Some("its role is `input`: expected it in `partly-taken-in`".to_owned());
    }
    if one.kind != EvidenceKind::Found && one.reason.is_empty() && !is_input {
        return Some("expected a reason".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_one_kind_of_evidence() {
        let claims = Claims::builtin().unwrap();
        let list = EvidenceList::builtin().unwrap();
        assert_eq!(list.all().len(), claims.of(None).count());
        for claim in claims.of(None) {
            let evidence = list.of(claim);
            assert_eq!(evidence.reason.is_empty(), evidence.kind == EvidenceKind::Found);
            assert!(!evidence.reason.contains('\n'), "{}", claim.id);
        }
    }

    #[test]
    fn a_list_without_sense_is_refused() {
        let register = |role: &str| {
            let claim = format!(
                "format = 1\n[[claim]]\nid = \"layering/x\"\nkind = \"count\"\nrole = \"{role}\"\n\
                 statement = \"s\"\ncondition = \"c\"\nsource = \"s\"\ncheck = \"model\"\n\
                 live = \"n/a\"\nhow = \"h\"\n"
            );
            Claims::parse(&claim).unwrap()
        };
        let list = |found: &str, partly: &str, arithmetic: &str| {
            format!(
                "format = 1\nfound = [{found}]\npartly-taken-in = [{partly}]\narithmetic = [{arithmetic}]\n"
            )
        };
        let problem = |role: &str, text: &str| {
            EvidenceList::parse(text, &register(role)).map(|_| ()).unwrap_err().to_string()
        };
        let reason = "{ id = \"layering/x\", reason = \"r\" }";
        let bare = "{ id = \"layering/x\" }";
        for good in [list("\"layering/x\"", "", ""), list("", reason, ""), list("", "", reason)] {
            assert!(EvidenceList::parse(&good, &register("prediction")).is_ok(), "{good}");
        }
        assert!(EvidenceList::parse(&list("", bare, ""), &register("input")).is_ok());
        let prediction = |text: &str| problem("prediction", text);
        assert!(prediction(&list("", "", "")).contains("`layering/x` is missing"));
        assert!(prediction(&list("\"layering/x\"", reason, "")).contains("stands twice"));
        assert!(prediction(&list("\"layering/y\"", "", "")).contains("a claim of papers"));
        assert!(prediction(&list("", bare, "")).contains("expected a reason"));
        assert!(problem("input", &list("\"layering/x\"", "", "")).contains("`partly-taken-in`"));
        assert!(
            prediction("format = 2\nfound = []\npartly-taken-in = []\narithmetic = []\n")
                .contains("this release reads 1")
        );
    }
}
