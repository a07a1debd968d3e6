//! Settings of the network namespaces in which the traffic of the runs was.

use std::collections::BTreeMap;

use serde::Serialize;
use sockscope_link::{Error, Hosts, Side};

use super::machine::settings;

/// Values by their names in sysctl.
type Settings = BTreeMap<&'static str, String>;

/// Settings of a client's namespace and of its server's, of one or more cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Namespaces {
    /// The cases that ran with them, in words; empty: all.
    pub cases: Vec<String>,
    /// Settings that both ends had. In one namespace these are all.
    pub both: Settings,
    /// Of the client, where they differ.
    pub client: Settings,
    /// Of the server, where they differ.
    pub server: Settings,
}

impl Namespaces {
    /// Asks the kernel, in the namespaces of the first client and of the server.
    ///
    /// # Errors
    ///
    /// When the thread of a namespace is gone.
    pub(crate) fn read(hosts: &Hosts) -> Result<Self, Error> {
        let [client, server] = [Side::Client, Side::Server].map(|side| hosts.run(side, settings));
        Ok(Self::of(client?, server?))
    }

    fn of(mut client: Settings, mut server: Settings) -> Self {
        let is_same = |name: &str, value: &String| server.get(name) == Some(value);
        let both: Settings = client
            .iter()
            .filter(|(name, value)| is_same(name, value))
            .map(|(name, value)| (*name, value.clone()))
            .collect();
        client.retain(|name, _| !both.contains_key(name));
        server.retain(|name, _| !both.contains_key(name));
        Self { cases: Vec::new(), both, client, server }
    }

    fn has_values_of(&self, other: &Self) -> bool {
        (&self.both, &self.client, &self.server) == (&other.both, &other.client, &other.server)
    }
}

/// Adds the namespaces of a case to those of the cases before it.
pub(crate) fn add_case(all: &mut Vec<Namespaces>, case: String, found: Namespaces) {
    match all.iter_mut().find(|one| one.has_values_of(&found)) {
        Some(one) if one.cases.contains(&case) => {}
        Some(one) => one.cases.push(case),
        None => all.push(Namespaces { cases: vec![case], ..found }),
    }
}

/// Where all cases had the same, none is named.
pub(crate) fn without_names_of_all(mut all: Vec<Namespaces>) -> Vec<Namespaces> {
    if let [only] = &mut all[..] {
        only.cases.clear();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(sack: &str, wmem: &str) -> Settings {
        let pairs = [("net.ipv4.tcp_sack", sack), ("net.ipv4.tcp_wmem", wmem)];
        pairs.map(|(name, value)| (name, value.to_owned())).into_iter().collect()
    }

    #[test]
    fn ends_that_differ_are_apart() {
        let same = Namespaces::of(settings("1", "4096"), settings("1", "4096"));
        assert_eq!((same.both.len(), same.client.len(), same.server.len()), (2, 0, 0));
        let apart = Namespaces::of(settings("1", "4096"), settings("0", "4096"));
        assert_eq!(apart.both.keys().collect::<Vec<_>>(), [&"net.ipv4.tcp_wmem"]);
        assert_eq!(apart.client["net.ipv4.tcp_sack"], "1");
        assert_eq!(apart.server["net.ipv4.tcp_sack"], "0");
    }

    #[test]
    fn cases_with_the_same_settings_stand_together() {
        let found = |sack| Namespaces::of(settings(sack, "4096"), settings(sack, "4096"));
        let mut all = Vec::new();
        for (case, sack) in [("a", "1"), ("a", "1"), ("b", "1"), ("c", "0")] {
            add_case(&mut all, case.to_owned(), found(sack));
        }
        let cases: Vec<_> = all.iter().map(|one| one.cases.join(" ")).collect();
        assert_eq!(cases, ["a b", "c"]);
        assert_eq!(without_names_of_all(all.clone()), all);
        all.truncate(1);
        assert!(without_names_of_all(all)[0].cases.is_empty());
    }
}
