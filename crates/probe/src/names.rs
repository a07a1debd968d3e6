//! Names of containers and pods, from files that engines and the kubelet write.
//!
//! All names are untrusted: one that Kubernetes or an engine would not give is unknown, as is that of a file that is
//! too long. No other field of a file is kept: Docker's also has the environment of the program.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sockscope_record::{Container, ControlGroup, Pod};

/// Links of the kubelet: `POD_NAMESPACE_CONTAINER-ID.log`.
const LINKS: &str = "var/log/containers";
/// Folders of the kubelet: `NAMESPACE_POD_UID`.
const PODS: &str = "var/log/pods";
/// Folders of Docker: `ID/config.v2.json`.
const DOCKER: &str = "var/lib/docker/containers";
/// The list of containers of Podman's storage.
const PODMAN: &str = "var/lib/containers/storage/overlay-containers/containers.json";
/// Entries of a folder that are looked at.
const ENTRIES_MAX: usize = 16_384;
/// Length of a file of Docker, and of Podman's list, at most.
const DOCKER_BYTES_MAX: u64 = 1 << 20;
const PODMAN_BYTES_MAX: u64 = 1 << 22;
/// Length of a name at most: a name of Kubernetes has up to 253 bytes.
const NAME_BYTES_MAX: usize = 253;

/// Folders that the files of names are in, below a root.
pub(crate) struct Names {
    root: PathBuf,
}

/// The folders of this machine that names are read from: for a program that gives up other rights.
pub fn folders_of_names() -> Vec<PathBuf> {
    let podman = Path::new(PODMAN).parent().unwrap_or(Path::new(PODMAN));
    [LINKS.as_ref(), PODS.as_ref(), DOCKER.as_ref(), podman]
        .map(|folder| Path::new("/").join(folder))
        .to_vec()
}

impl Names {
    pub(crate) fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Adds the names of its container and its pod, as far as they are known.
    pub(crate) fn complete(&self, group: &mut ControlGroup) {
        if let Some(container) = &mut group.container {
            match &mut group.pod {
                Some(pod) => self.complete_in_pod(container, pod),
                None => {
                    let name = self.of_docker(&container.id, &["Name"]);
                    container.name = name.or_else(|| self.of_podman(&container.id));
                }
            }
        }
        if let Some(pod) = &mut group.pod
            && pod.name.is_none()
        {
            self.complete_pod(pod);
        }
    }

    fn complete_in_pod(&self, container: &mut Container, pod: &mut Pod) {
        let end = format!("-{}.log", container.id);
        let link = entries(&self.root.join(LINKS)).find(|name| name.ends_with(&end));
        let names = link.as_deref().and_then(|link| link.strip_suffix(&end));
        if let Some([name, namespace, of_container]) = names.and_then(|names| words(names, '_')) {
            (pod.name, pod.namespace) = (Some(name), Some(namespace));
            container.name = Some(of_container);
            return;
        }
        let label = ["Config", "Labels", "io.kubernetes.container.name"];
        container.name = self.of_docker(&container.id, &label);
    }

    fn complete_pod(&self, pod: &mut Pod) {
        let end = format!("_{}", pod.uid);
        let folder = entries(&self.root.join(PODS)).find(|name| name.ends_with(&end));
        let names = folder.as_deref().and_then(|folder| folder.strip_suffix(&end));
        if let Some([namespace, name]) = names.and_then(|names| words(names, '_')) {
            (pod.namespace, pod.name) = (Some(namespace), Some(name));
        }
    }

    /// A name in Docker's file of a container.
    fn of_docker(&self, id: &str, keys: &[&str]) -> Option<String> {
        let path = self.root.join(DOCKER).join(id).join("config.v2.json");
        let text = read_at_most(&path, DOCKER_BYTES_MAX)?;
        let file: Value = serde_json::from_str(&text).ok()?;
        let name = keys.iter().try_fold(&file, |at, key| at.get(key))?.as_str()?;
        named(name.strip_prefix('/').unwrap_or(name))
    }

    fn of_podman(&self, id: &str) -> Option<String> {
        let text = read_at_most(&self.root.join(PODMAN), PODMAN_BYTES_MAX)?;
        let list: Value = serde_json::from_str(&text).ok()?;
        let own = list.as_array()?.iter().find(|it| it["id"].as_str() == Some(id))?;
        named(own["names"].get(0)?.as_str()?)
    }
}

/// Names of a folder's entries.
fn entries(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX);
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// As many names as asked for, with a sign between them that is in no name of Kubernetes.
fn words<const N: usize>(text: &str, between: char) -> Option<[String; N]> {
    let words: Option<Vec<String>> = text.split(between).map(named).collect();
    words?.try_into().ok()
}

/// The name, if an engine or Kubernetes may give it.
fn named(name: &str) -> Option<String> {
    let is_letter = |it: u8| it.is_ascii_alphanumeric();
    let is_sign = |it: u8| is_letter(it) || matches!(it, b'-' | b'.' | b'_');
    let is_name = name.bytes().next().is_some_and(is_letter)
        && name.bytes().all(is_sign)
        && name.len() <= NAME_BYTES_MAX;
    is_name.then(|| name.to_owned())
}

/// The text of a file; `None` of one that cannot be read, is longer, or is no text.
pub(crate) fn read_at_most(path: &Path, bytes_max: u64) -> Option<String> {
    let mut text = String::new();
    let read = File::open(path).ok()?.take(bytes_max + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= bytes_max).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "8c21d2a0-1b3c-4d5e-8f90-a1b2c3d4e5f6";

    /// A made-up machine, removed at the end.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str) -> Self {
            let root =
                std::env::temp_dir().join(format!("sockscope-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            Self(root)
        }

        fn file(self, path: &str, text: &str) -> Self {
            let path = self.0.join(path.replace("UID", UID).replace("ID", ID));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace("ID", ID)).unwrap();
            self
        }

        fn folder(self, path: &str) -> Self {
            fs::create_dir_all(self.0.join(path.replace("UID", UID))).unwrap();
            self
        }

        /// A group of it in words.
        fn words(&self, path: &str) -> String {
            let mut group = ControlGroup::of_path(&path.replace("UID", UID).replace("ID", ID));
            Names::below(&self.0).complete(&mut group);
            group.to_string().replace(UID, "UID")
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const IN_POD: &str = "/kubepods.slice/kubepods-podUID.slice/cri-containerd-ID.scope";

    #[test]
    fn docker_names_a_container_in_its_own_file() {
        let path = "var/lib/docker/containers/ID/config.v2.json";
        let machine = Machine::new("docker").file(path, r#"{"ID": "ID", "Name": "/web_1"}"#);
        assert_eq!(machine.words("/docker/ID"), "container web_1");
        assert_eq!(machine.words("/system.slice/docker-ID.scope"), "container web_1");
    }

    #[test]
    fn podman_names_a_container_in_the_list_of_its_storage() {
        let list = r#"[{"id": "7", "names": ["other"]}, {"id": "ID", "names": ["db"]}]"#;
        let machine = Machine::new("podman").file(PODMAN, list);
        assert_eq!(machine.words("/machine.slice/libpod-ID.scope/container"), "container db");
    }

    #[test]
    fn the_kubelet_names_pod_namespace_and_container_in_a_link() {
        let machine = Machine::new("link").file("var/log/containers/web-0_shop_nginx-ID.log", "");
        assert_eq!(machine.words(IN_POD), "pod shop/web-0, container nginx");
        assert_eq!(machine.words("/kubepods/podUID/ID"), "pod shop/web-0, container nginx");
        // The pod's own group has no container, so that no link is of it.
        assert_eq!(machine.words("/kubepods/podUID"), "pod UID");
    }

    #[test]
    fn the_kubelet_names_a_pod_in_its_folder_of_logs() {
        let machine = Machine::new("pods").folder("var/log/pods/kube-system_dns-7_UID/dns");
        assert_eq!(machine.words("/kubepods/podUID"), "pod kube-system/dns-7");
        // One container in the folder does not show which one this is: the pause container has no folder.
        assert_eq!(machine.words(IN_POD), "pod kube-system/dns-7, container 0123456789ab");
    }

    #[test]
    fn docker_has_the_names_of_kubernetes_as_labels() {
        let labels = r#"{"Config": {"Labels": {"io.kubernetes.container.name": "app"}}}"#;
        let path = "var/lib/docker/containers/ID/config.v2.json";
        let machine = Machine::new("labels").file(path, labels).folder("var/log/pods/a_b_UID/app");
        assert_eq!(machine.words("/kubepods/podUID/ID"), "pod a/b, container app");
    }

    #[test]
    fn without_files_names_are_unknown() {
        let machine = Machine::new("none");
        assert_eq!(machine.words(IN_POD), "pod UID, container 0123456789ab");
        assert_eq!(machine.words("/docker/ID"), "container 0123456789ab");
        assert_eq!(machine.words("/system.slice/a.service"), "unit a.service");
    }

    #[test]
    fn hostile_and_broken_files_name_nothing() {
        let path = "var/lib/docker/containers/ID/config.v2.json";
        let long = format!(r#"{{"Name": "/{}"}}"#, "a".repeat(NAME_BYTES_MAX + 1));
        let huge = format!(r#"{{"x": "{}", "Name": "/web"}}"#, "x".repeat(1 << 20));
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "{",
            "[]",
            "null",
            r#"{"Name": 7}"#,
            r#"{"Name": ""}"#,
            r#"{"Name": "/"}"#,
            r#"{"Name": "/a b"}"#,
            r#"{"Name": "/\u001b[2J"}"#,
            r#"{"Name": "/../x"}"#,
            &long,
            &huge,
            &deep,
        ] {
            let machine = Machine::new("hostile").file(path, text).file(PODMAN, text);
            let shown = &text[..text.len().min(40)];
            assert_eq!(machine.words("/docker/ID"), "container 0123456789ab", "{shown}");
        }
        for link in ["web-0_shop-ID.log", "a_b_c_d-ID.log", "a_b_\u{202e}-ID.log", "_b_c-ID.log"] {
            let machine = Machine::new("links").file(&format!("var/log/containers/{link}"), "");
            assert_eq!(machine.words(IN_POD), "pod UID, container 0123456789ab", "{link}");
        }
        for folder in ["shop_UID", "a_b_c_UID", "a b_c_UID", "UID"] {
            let machine = Machine::new("folders-of").folder(&format!("var/log/pods/{folder}"));
            assert_eq!(machine.words("/kubepods/podUID"), "pod UID", "{folder}");
        }
    }

    #[test]
    fn a_folder_in_the_place_of_a_file_names_nothing() {
        let machine = Machine::new("folder").folder(PODMAN);
        assert_eq!(machine.words("/docker/ID"), "container 0123456789ab");
    }
}
