//! Control groups of processes, and the names that the path of a group has.
//!
//! systemd, container engines and the kubelet each name the folders of their groups after their own objects. A path
//! gives the name of a unit and the numbers of a container and a pod. The names of containers and pods stand in
//! files of the engine and of the kubelet, which `probe` reads. An unknown name stays `None`.

use std::fmt;

/// Digits of a container's number.
const CONTAINER_ID_DIGITS: usize = 64;
/// Digits of it that engines print.
const SHORT_ID_DIGITS: usize = 12;
/// Digits of a pod's number, without hyphens: a UUID, or the hash of a pod's file.
const POD_UID_DIGITS: usize = 32;
/// A container's folder is its number, or one of these and the number. That of its monitor has another word.
const CONTAINER_PREFIXES: [&str; 6] =
    ["docker-", "cri-containerd-", "crio-", "libpod-payload-", "libpod-", "nerdctl-"];
/// Kinds of units that have processes (systemd.unit(5)).
const UNIT_SUFFIXES: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];

/// A control group, by the names of the objects that it belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControlGroup {
    /// Its path below the root of its hierarchy, as in `/proc/PID/cgroup`.
    pub path: String,
    /// The innermost unit of systemd, as `systemctl` names it. That of a container's own folder is no unit here.
    pub unit: Option<String>,
    /// The innermost container.
    pub container: Option<Container>,
    /// The pod of that container.
    pub pod: Option<Pod>,
}

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Container {
    /// Its number: 64 hexadecimal digits.
    pub id: String,
    /// Its name: in a pod that of the pod's specification, else the engine's.
    pub name: Option<String>,
}

/// A pod of Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pod {
    /// Its number: a UUID, or the hash of the file of a static pod.
    pub uid: String,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: Option<String>,
}

impl ControlGroup {
    /// The names that are in a path.
    pub fn of_path(path: &str) -> Self {
        let mut group = Self { path: path.to_owned(), ..Self::default() };
        let mut is_kubelet = false;
        for folder in path.split('/') {
            // systemd puts this before names that the kernel uses for files of a group.
            let folder = folder.strip_prefix('_').unwrap_or(folder);
            is_kubelet |= folder.contains("kubepods");
            // An engine that expects systemd, where the kernel's folders are used directly, joins three words.
            let (parent, id) = folder.rsplit_once(':').unwrap_or((folder, folder));
            let slice = parent.split(':').next().filter(|_| is_kubelet);
            if let Some(uid) = slice.and_then(pod_uid) {
                group.pod = Some(Pod { uid, ..Pod::default() });
                (group.container, group.unit) = (None, None);
            }
            if let Some(id) = container_id(id) {
                group.container = Some(Container { id: id.to_owned(), name: None });
                group.unit = None;
            } else if is_unit(folder) {
                group.unit = Some(folder.to_owned());
            }
        }
        group
    }

    /// Whether it belongs to a unit, a container or a pod.
    pub fn has_names(&self) -> bool {
        self.unit.is_some() || self.container.is_some() || self.pod.is_some()
    }
}

impl Container {
    /// Its name, or the first digits of its number.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.get(..SHORT_ID_DIGITS).unwrap_or(&self.id))
    }
}

impl Pod {
    /// Its namespace and name, or its number.
    pub fn label(&self) -> String {
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            (_, name) => name.as_ref().unwrap_or(&self.uid).clone(),
        }
    }
}

/// As `pod default/web-0, container nginx`; empty without a name.
impl fmt::Display for ControlGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pod = self.pod.as_ref().map(|pod| format!("pod {}", pod.label()));
        let container = self.container.as_ref().map(|it| format!("container {}", it.label()));
        let unit = self.unit.as_ref().map(|unit| format!("unit {unit}"));
        let parts: Vec<String> = [pod, container, unit].into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

/// The number of a pod whose folder this is: `kubepods-burstable-podUID.slice`, or `podUID` of cgroupfs. systemd
/// reserves the hyphen, so that its form has underscores.
fn pod_uid(folder: &str) -> Option<String> {
    let uid = match folder.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod")?.1.replace('_', "-"),
        None => folder.strip_prefix("pod")?.to_owned(),
    };
    let digits = uid.chars().filter(|it| *it != '-');
    let is_uid = digits.clone().all(is_digit) && digits.count() == POD_UID_DIGITS;
    is_uid.then_some(uid)
}

/// The number of a container whose folder this is: `docker-ID.scope`, `crio-ID`, `ID`.
fn container_id(folder: &str) -> Option<&str> {
    let folder = folder.strip_suffix(".scope").unwrap_or(folder);
    let prefixes = CONTAINER_PREFIXES.iter();
    let id = prefixes.filter_map(|prefix| folder.strip_prefix(prefix)).chain([folder]);
    id.into_iter().find(|id| id.len() == CONTAINER_ID_DIGITS && id.chars().all(is_digit))
}

fn is_digit(letter: char) -> bool {
    matches!(letter, '0'..='9' | 'a'..='f')
}

fn is_unit(folder: &str) -> bool {
    let stems = UNIT_SUFFIXES.iter().filter_map(|suffix| folder.strip_suffix(suffix));
    stems.into_iter().any(|stem| !stem.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "8c21d2a0-1b3c-4d5e-8f90-a1b2c3d4e5f6";
    const UID_OF_SYSTEMD: &str = "8c21d2a0_1b3c_4d5e_8f90_a1b2c3d4e5f6";
    const HASH: &str = "f0e1d2c3b4a5968778695a4b3c2d1e0f";

    /// The unit, the container's number and the pod's number of a path.
    fn names(path: &str) -> [String; 3] {
        let filled = path
            .replace("UID_", UID_OF_SYSTEMD)
            .replace("UID", UID)
            .replace("HASH", HASH)
            .replace("ID", ID);
        let group = ControlGroup::of_path(&filled);
        assert_eq!(group.path, filled);
        let id = group.container.map(|it| it.id.replace(ID, "ID"));
        let uid = group.pod.map(|it| it.uid.replace(UID, "UID").replace(HASH, "HASH"));
        [group.unit, id, uid].map(Option::unwrap_or_default)
    }

    #[test]
    fn units_of_systemd_are_the_innermost_ones() {
        for (path, unit) in [
            ("/system.slice/nginx.service", "nginx.service"),
            ("/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service"),
            ("/system.slice/delegated.service/worker/7", "delegated.service"),
            ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/mail.service",
                "mail.service",
            ),
            (r"/system.slice/dev-disk\x2d1.swap", r"dev-disk\x2d1.swap"),
            ("/system.slice/_cpu.service", "cpu.service"),
            ("/system.slice/a:b.service", "a:b.service"),
            ("/init.scope", "init.scope"),
            ("/system.slice", ""),
            ("/.service", ""),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(names(path), [unit, "", ""], "{path}");
        }
    }

    #[test]
    fn containers_of_each_engine_and_driver_have_their_number() {
        for path in [
            "/system.slice/docker-ID.scope",
            "/docker/ID",
            "/system.slice/containerd.service/system.slice:docker:ID",
            "/machine.slice/libpod-ID.scope/container",
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope",
            "/libpod_parent/libpod-ID",
            "/system.slice/nerdctl-ID.scope",
            "/../../docker-ID.scope",
        ] {
            assert_eq!(names(path), ["", "ID", ""], "{path}");
        }
        // A systemd of its own runs in the container.
        let inside = "/system.slice/docker-ID.scope/system.slice/cron.service";
        assert_eq!(names(inside), ["cron.service", "ID", ""]);
        // The monitor of a container is outside it.
        let monitor = "/machine.slice/libpod-conmon-ID.scope";
        assert_eq!(names(monitor)[1..], ["", ""]);
    }

    #[test]
    fn pods_of_each_driver_and_class_have_their_number() {
        for (path, uid) in [
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice/\
                 cri-containerd-ID.scope",
                "UID",
            ),
            ("/kubepods.slice/kubepods-podHASH.slice/crio-ID.scope", "HASH"),
            ("/kubepods/besteffort/podUID/ID", "UID"),
            ("/kubepods/podHASH/crio-ID", "HASH"),
            (
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podUID_.slice/\
                 cri-containerd-ID.scope",
                "UID",
            ),
            (
                "/system.slice/containerd.service/kubepods-burstable-podUID_.slice:cri-containerd:ID",
                "UID",
            ),
        ] {
            assert_eq!(names(path), ["", "ID", uid], "{path}");
        }
        // The folder of the pod itself, and one in a node that is a container.
        assert_eq!(names("/kubepods/besteffort/podUID"), ["", "", "UID"]);
        assert_eq!(names("/docker/ID/kubepods/podUID"), ["", "", "UID"]);
    }

    #[test]
    fn folders_that_only_look_like_containers_or_pods_have_none() {
        let short = format!("/docker/{}", &ID[1..]);
        let upper = format!("/docker/{}", ID.to_uppercase());
        let other = format!("/system.slice/other-{ID}.scope");
        for path in
            [&short, &upper, &other, "/podcast/podUID", "/kubepods/podcast", "/kubepods/podé"]
        {
            assert_eq!(names(path)[1..], ["", ""], "{path}");
        }
    }

    #[test]
    fn a_group_in_words_has_names_where_they_are_known_and_else_numbers() {
        let mut group = ControlGroup::of_path(&format!("/kubepods/pod{UID}/{ID}"));
        assert_eq!(group.to_string(), format!("pod {UID}, container 0123456789ab"));
        let pod = group.pod.as_mut().unwrap();
        (pod.namespace, pod.name) = (Some("shop".into()), Some("web-0".into()));
        group.container.as_mut().unwrap().name = Some("nginx".into());
        assert_eq!(group.to_string(), "pod shop/web-0, container nginx");
        let unit = ControlGroup::of_path("/system.slice/nginx.service");
        assert_eq!((unit.to_string().as_str(), unit.has_names()), ("unit nginx.service", true));
        let none = ControlGroup::of_path("/user.slice");
        assert_eq!((none.to_string().as_str(), none.has_names()), ("", false));
    }

    /// Folders that are nearly those of engines.
    fn folder() -> impl Strategy<Value = String> {
        let id = prop_oneof![Just(ID.to_owned()), "[0-9a-f]{63,65}", ".{0,4}"];
        let uid =
            prop_oneof![Just(UID.to_owned()), Just(UID_OF_SYSTEMD.to_owned()), "[0-9a-f_-]{30,38}"];
        let before = "(docker-|crio-|libpod-conmon-|_|kubepods-pod|pod|kubepods|é)?";
        let after = r"(\.scope|\.service|\.slice|:cri-containerd:|\\x2d)?";
        (before, prop_oneof![id, uid], after).prop_map(|(before, id, after)| before + &id + &after)
    }

    proptest! {
        #[test]
        fn names_of_any_path_are_parts_of_it(folders in prop::collection::vec(folder(), 0..6)) {
            let path = format!("/{}", folders.join("/"));
            let group = ControlGroup::of_path(&path);
            if let Some(unit) = &group.unit {
                prop_assert!(path.contains(unit.as_str()) && is_unit(unit) && !unit.contains('/'));
            }
            if let Some(container) = &group.container {
                prop_assert!(path.contains(&container.id) && container.id.len() == 64);
            }
            if let Some(pod) = &group.pod {
                let forms = [pod.uid.clone(), pod.uid.replace('-', "_")];
                let is_part = forms.iter().any(|form| path.contains(form));
                prop_assert!(is_part || path.replace('_', "-").contains(&pod.uid));
            }
            // Folders below a group add names and take no container away, unless a pod begins.
            let below = ControlGroup::of_path(&format!("{path}/x"));
            prop_assert_eq!((below.unit, below.container, below.pod),
                (group.unit, group.container, group.pod));
        }

        #[test]
        fn any_text_is_a_path(path in ".{0,200}") {
            prop_assert_eq!(ControlGroup::of_path(&path).path, path);
        }
    }
}
