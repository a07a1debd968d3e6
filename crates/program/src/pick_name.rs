//! `--pick`: a unit, a container or a pod whose sockets to record, found by the names of control groups.

use sockscope_probe::GroupFolder;
use sockscope_record::ControlGroup;

use crate::failure::Failure;
use crate::suggest::did_you_mean;

/// Suffix of units whose name is given without one, as `systemctl` takes it.
const UNIT_SUFFIX: &str = ".service";
/// Digits of a container's number that distinguish it at least.
const ID_DIGITS_MIN: usize = 4;
/// Names in a message at most.
const NAMED_MAX: usize = 5;

/// What is picked by a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pod,
    Unit,
    Container,
}

/// A pod, a unit or a container, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PickName {
    kind: Kind,
    name: String,
}

/// Reads `--pick`.
///
/// # Errors
///
/// The form of a name.
pub fn pick_name(text: &str) -> Result<PickName, String> {
    let form = "give pod=NAME, pod=NAMESPACE/NAME, unit=NAME, container=NAME or container=ID";
    let (kind, name) = text.split_once('=').ok_or(form)?;
    let known = Kind::ALL.into_iter().find(|known| known.name() == kind);
    let kind =
        known.ok_or_else(|| format!("{form}{}", did_you_mean(kind, Kind::ALL.map(Kind::name))))?;
    if name.is_empty() {
        return Err(format!("{}= has no name: {form}", kind.name()));
    }
    Ok(PickName { kind, name: name.to_owned() })
}

impl Kind {
    const ALL: [Self; 3] = [Self::Pod, Self::Unit, Self::Container];

    fn name(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Unit => "unit",
            Self::Container => "container",
        }
    }

    /// The name of the object of this kind that a group belongs to.
    fn label(self, group: &ControlGroup) -> Option<String> {
        match self {
            Self::Pod => group.pod.as_ref().map(|pod| pod.label()),
            Self::Unit => group.unit.clone(),
            Self::Container => group.container.as_ref().map(|it| it.label().to_owned()),
        }
    }
}

impl PickName {
    /// The control group with this name: its inode number and depth.
    ///
    /// # Errors
    ///
    /// When no group or more than one has the name.
    pub fn find(&self, folders: &[GroupFolder]) -> Result<(u64, u32), Failure> {
        let kind = self.kind.name();
        let has_name = |it: &&GroupFolder| self.is_name_of(&it.group);
        let mut found: Vec<&GroupFolder> = folders.iter().filter(has_name).collect();
        // A unit inside a container belongs to the container too: the outermost group has all of it.
        let outer: Vec<_> = found.iter().map(|it| it.folder.clone()).collect();
        found.retain(|it| {
            !outer.iter().any(|other| it.folder != *other && it.folder.starts_with(other))
        });
        match found.as_slice() {
            [one] => Ok(one.id),
            [] => Err(Failure::new(format!("--pick {kind}={}: {}", self.name, self.near(folders)))),
            several => {
                let shown = several.iter().take(NAMED_MAX).map(|it| it.group.path.clone());
                let shown: Vec<_> = shown.collect();
                let (count, more) = (several.len(), several.len() - shown.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                Err(Failure::new(format!(
                    "--pick {kind}={}: {count} control groups have this name, pick one of them by its pod, the \
                     digits of its container, or --cgroup: {}{more}",
                    self.name,
                    shown.join(", ")
                )))
            }
        }
    }

    fn is_name_of(&self, group: &ControlGroup) -> bool {
        let name = self.name.as_str();
        match self.kind {
            Kind::Pod => group.pod.as_ref().is_some_and(|pod| {
                pod.label() == name || pod.name.as_deref() == Some(name) || pod.uid == name
            }),
            Kind::Unit => group.unit.as_ref().is_some_and(|unit| {
                let stem = unit.strip_suffix(UNIT_SUFFIX).unwrap_or(unit);
                [unit, stem].iter().any(|it| *it == name || unescaped(it) == name)
            }),
            Kind::Container => group.container.as_ref().is_some_and(|container| {
                let is_id = name.len() >= ID_DIGITS_MIN && container.id.starts_with(name);
                container.name.as_deref() == Some(name) || is_id
            }),
        }
    }

    /// Why no group was found, and the names that there are.
    fn near(&self, folders: &[GroupFolder]) -> String {
        let mut names: Vec<_> =
            folders.iter().filter_map(|it| self.kind.label(&it.group)).collect();
        names.sort_unstable();
        names.dedup();
        let kind = self.kind.name();
        if names.is_empty() {
            return format!("no {kind} has a control group of version 2 now");
        }
        let mut near = did_you_mean(&self.name, names.iter().map(String::as_str));
        if near.is_empty() {
            let shown = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            near = format!("; there are {shown}{more}");
        }
        format!("no {kind} of this name has a control group now{near}")
    }
}

/// A unit's name without its escapes, `\x2d` for a hyphen (systemd-escape(1)).
fn unescaped(unit: &str) -> String {
    let mut text = Vec::new();
    let mut rest = unit.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.strip_prefix(b"x").and_then(|after| after.get(..2));
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(octet) if first == b'\\' => {
                text.push(octet);
                rest = &after[3..];
            }
            _ => {
                text.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const WEB: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const DB: &str = "0123f56789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "8c21d2a0-1b3c-4d5e-8f90-a1b2c3d4e5f6";

    /// Groups by their paths, numbered from 1 on, with names for pods and containers.
    fn folders() -> Vec<GroupFolder> {
        let paths = [
            "/system.slice/nginx.service".to_owned(),
            r"/system.slice/my\x2dserver.service".to_owned(),
            format!("/docker/{WEB}"),
            format!("/kubepods/pod{UID}"),
            format!("/kubepods/pod{UID}/{DB}"),
            "/user.slice/user@1.service/app.service".to_owned(),
            "/user.slice/user@2.service/app.service".to_owned(),
            format!("/docker/{WEB}/system.slice/nginx.service"),
        ];
        let group = |(path, number): (String, u64)| {
            let mut group = ControlGroup::of_path(&path);
            if let Some(pod) = &mut group.pod {
                (pod.namespace, pod.name) = (Some("shop".into()), Some("cart-0".into()));
            } else if let Some(container) = &mut group.container {
                container.name = Some("web".into());
            }
            GroupFolder { folder: path.into(), id: (number, 1), group: Arc::new(group) }
        };
        paths.into_iter().zip(1..).map(group).collect()
    }

    /// The number of the group that is picked, or the message.
    fn found(pick: &str) -> Result<u64, String> {
        let found = pick_name(pick).unwrap().find(&folders());
        found.map(|id| id.0).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_name_leads_to_its_group() {
        for (pick, number) in [
            (r"unit=my\x2dserver.service", 2),
            ("unit=my-server", 2),
            ("container=web", 3),
            ("container=01234", 3),
            ("container=0123f", 5),
            ("pod=cart-0", 4),
            ("pod=shop/cart-0", 4),
            (&format!("pod={UID}"), 4),
        ] {
            assert_eq!(found(pick), Ok(number), "{pick}");
        }
    }

    #[test]
    fn a_name_of_no_group_or_of_several_is_refused_with_those_that_there_are() {
        let refused = |pick| found(pick).unwrap_err();
        assert_eq!(
            refused("container=wep"),
            "--pick container=wep: no container of this name has a control group now; did you mean web?"
        );
        let other = refused("pod=zzz");
        assert!(other.ends_with("has a control group now; there are shop/cart-0"), "{other}");
        let apps = refused("unit=app");
        assert!(apps.starts_with("--pick unit=app: 2 control groups have this name"), "{apps}");
        assert!(apps.ends_with(
            "/user.slice/user@1.service/app.service, /user.slice/user@2.service/app.service"
        ));
        assert!(refused("unit=nginx").contains("2 control groups"));
        // Three digits may be of many.
        assert!(refused("container=012").contains("no container of this name"));
        let nowhere = pick_name("pod=a").unwrap().find(&[]).unwrap_err().to_string();
        assert_eq!(nowhere, "--pick pod=a: no pod has a control group of version 2 now");
    }

    #[test]
    fn a_pick_of_another_form_is_refused() {
        let form = "give pod=NAME, pod=NAMESPACE/NAME, unit=NAME, container=NAME or container=ID";
        assert_eq!(pick_name("nginx").unwrap_err(), form);
        assert_eq!(pick_name("units=nginx").unwrap_err(), format!("{form}; did you mean unit?"));
        assert_eq!(pick_name("pod=").unwrap_err(), format!("pod= has no name: {form}"));
    }

    #[test]
    fn escapes_of_systemd_are_signs() {
        for (escaped, text) in [
            (r"a\x2db", "a-b"),
            (r"a\x2", r"a\x2"),
            (r"\xzz", r"\xzz"),
            ("é", "é"),
            (r"\x5cx2d", r"\x2d"),
        ] {
            assert_eq!(unescaped(escaped), text);
        }
    }
}
