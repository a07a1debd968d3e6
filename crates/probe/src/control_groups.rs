//! The control groups of processes, with the names of their containers and pods.
//!
//! `/proc/PID/cgroup` has the path of a process's group. Where the process has ended, the group's number leads to its
//! folder, if that is still there. Names stand in files of Docker, Podman and the kubelet; no program is asked.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sockscope_record::ControlGroup;

use crate::cgroup::Cgroup;
use crate::names::{Names, read_at_most};

/// A process may move to another group, and its number may be given to another process.
const PROCESS_KEPT: Duration = Duration::from_secs(1);
/// An engine may write a name after the first process of a container runs.
const UNNAMED_KEPT: Duration = Duration::from_secs(5);
/// Between two walks for folders that were not found.
const WALK_EVERY: Duration = Duration::from_secs(1);
/// Entries of each table at most; a full one starts again.
const KEPT_MAX: usize = 4_096;
/// Folders of the hierarchy that a walk visits at most.
const FOLDERS_MAX: usize = 65_536;
/// The length of `/proc/PID/cgroup` at most: some lines with a path of 4,096 bytes each.
const PROC_BYTES_MAX: u64 = 1 << 17;
/// The inode number of the first process namespace (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// Finds groups of processes, and keeps what it found for a while.
pub struct ControlGroups {
    names: Names,
    /// `None` where process numbers of the kernel's records are not those of this `/proc`.
    proc: Option<PathBuf>,
    hierarchy: Option<PathBuf>,
    of_process: HashMap<(u32, u64), Looked>,
    of_path: HashMap<String, (Instant, Arc<ControlGroup>)>,
    path_of_id: HashMap<u64, String>,
    walked: Option<Instant>,
}

/// When a process was looked for, and its group.
type Looked = (Instant, Option<Arc<ControlGroup>>);

/// A folder of the hierarchy with the names of its group.
#[derive(Debug, Clone)]
pub struct GroupFolder {
    /// The folder.
    pub folder: PathBuf,
    /// Its inode number and its depth below the root, as [`crate::Pick`] takes them.
    pub id: (u64, u32),
    /// Its names.
    pub group: Arc<ControlGroup>,
}

impl ControlGroups {
    /// Those of this machine.
    pub fn of_machine() -> Self {
        let namespace = fs::metadata("/proc/self/ns/pid").map(|it| it.ino());
        let is_first = namespace.is_ok_and(|ino| ino == FIRST_NAMESPACE);
        let proc = is_first.then(|| PathBuf::from("/proc"));
        Self::new(Names::below(Path::new("/")), proc, Cgroup::hierarchy().ok())
    }

    /// Those of a machine whose files are below `root`, with the version 2 hierarchy at `sys/fs/cgroup`.
    pub fn below(root: &Path) -> Self {
        let hierarchy = Some(root.join("sys/fs/cgroup"));
        Self::new(Names::below(root), Some(root.join("proc")), hierarchy)
    }

    fn new(names: Names, proc: Option<PathBuf>, hierarchy: Option<PathBuf>) -> Self {
        Self {
            names,
            proc,
            hierarchy,
            of_process: HashMap::new(),
            of_path: HashMap::new(),
            path_of_id: HashMap::new(),
            walked: None,
        }
    }

    /// The group of a process, which was in the version 2 group of this inode number; 0 where that is not known.
    pub fn of(&mut self, pid: u32, id: u64) -> Option<Arc<ControlGroup>> {
        let now = Instant::now();
        if let Some((at, found)) = self.of_process.get(&(pid, id))
            && now - *at < PROCESS_KEPT
        {
            return found.clone();
        }
        let path = self.path_of_process(pid).or_else(|| self.path_of_id(id, now));
        let found = path.map(|path| self.named(path, now));
        if self.of_process.len() >= KEPT_MAX {
            self.of_process.clear();
        }
        self.of_process.insert((pid, id), (now, found.clone()));
        found
    }

    /// All folders of the version 2 hierarchy whose groups are the outermost of a unit, a container or a pod.
    pub fn folders(&mut self) -> Vec<GroupFolder> {
        let now = Instant::now();
        let mut all = Vec::new();
        self.walk(|folder, path, id| {
            all.push((folder.to_owned(), path.to_owned(), id));
        });
        let mut found = Vec::new();
        for (folder, path, ino) in all {
            let own = ControlGroup::of_path(&path);
            let above = ControlGroup::of_path(path.rsplit_once('/').map_or("", |it| it.0));
            let is_below =
                own.unit == above.unit && own.container == above.container && own.pod == above.pod;
            if own.has_names() && !is_below {
                let level = path.split('/').filter(|it| !it.is_empty()).count();
                let id = (ino, u32::try_from(level).unwrap_or(u32::MAX));
                found.push(GroupFolder { folder, id, group: self.named(path, now) });
            }
        }
        found
    }

    fn path_of_process(&self, pid: u32) -> Option<String> {
        let path = self.proc.as_ref()?.join(pid.to_string()).join("cgroup");
        best_path(&read_at_most(&path, PROC_BYTES_MAX)?)
    }

    fn path_of_id(&mut self, id: u64, now: Instant) -> Option<String> {
        if id == 0 {
            return None;
        }
        let is_due = self.walked.is_none_or(|at| now - at >= WALK_EVERY);
        if !self.path_of_id.contains_key(&id) && is_due {
            self.walked = Some(now);
            let mut all = HashMap::new();
            self.walk(|_, path, id| {
                all.insert(id, path.to_owned());
            });
            self.path_of_id = all;
        }
        self.path_of_id.get(&id).cloned()
    }

    /// Calls with each folder of the version 2 hierarchy, its path as of a group, and its inode number.
    fn walk(&self, mut take: impl FnMut(&Path, &str, u64)) {
        let Some(root) = &self.hierarchy else { return };
        let mut next = vec![(root.clone(), String::new())];
        if let Ok(found) = fs::metadata(root) {
            take(root, "/", found.ino());
        }
        let mut count = 0;
        while let Some((folder, path)) = next.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if !entry.file_type().is_ok_and(|it| it.is_dir()) || count == FOLDERS_MAX {
                    continue;
                }
                count += 1;
                let path = format!("{path}/{}", entry.file_name().to_string_lossy());
                take(&entry.path(), &path, entry.ino());
                next.push((entry.path(), path));
            }
        }
    }

    /// The group of a path, with names from files.
    fn named(&mut self, path: String, now: Instant) -> Arc<ControlGroup> {
        if let Some((at, group)) = self.of_path.get(&path)
            && (is_complete(group) || now - *at < UNNAMED_KEPT)
        {
            return group.clone();
        }
        let mut group = ControlGroup::of_path(&path);
        self.names.complete(&mut group);
        let group = Arc::new(group);
        if self.of_path.len() >= KEPT_MAX {
            self.of_path.clear();
        }
        self.of_path.insert(path, (now, group.clone()));
        group
    }
}

/// Whether no file can add a name.
fn is_complete(group: &ControlGroup) -> bool {
    group.container.as_ref().is_none_or(|it| it.name.is_some())
        && group.pod.as_ref().is_none_or(|it| it.name.is_some())
}

/// The path that says most: of a container or pod, else of a unit, else of version 2. Each engine uses the hierarchies
/// that it controls, so that another one may have the process in its root.
fn best_path(text: &str) -> Option<String> {
    let paths = text.lines().filter_map(|line| {
        let mut words = line.splitn(3, ':');
        let (hierarchy, path) = (words.next()?, words.nth(1)?);
        let group = ControlGroup::of_path(path);
        let is_contained = group.container.is_some() || group.pod.is_some();
        let rank = (is_contained, group.unit.is_some(), hierarchy == "0", path != "/");
        Some((rank, path))
    });
    paths.max_by_key(|(rank, _)| *rank).map(|(_, path)| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// A folder that is removed at the end.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str) -> Self {
            let root =
                std::env::temp_dir().join(format!("sockscope-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join("sys/fs/cgroup")).unwrap();
            Self(root)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// The number of a new control group.
        fn group(&self, path: &str) -> u64 {
            let folder = self.0.join("sys/fs/cgroup").join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::metadata(folder).unwrap().ino()
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn words(found: Option<Arc<ControlGroup>>) -> String {
        found.map_or("none".to_owned(), |group| format!("{} [{group}]", group.path))
    }

    #[test]
    fn the_line_with_the_most_names_is_taken() {
        let docker = format!("/docker/{ID}");
        for (lines, path) in [
            ("0::/system.slice/nginx.service\n".to_owned(), "/system.slice/nginx.service"),
            (format!("12:cpu:{docker}\n1:name=systemd:{docker}\n0::/\n"), &docker),
            (
                "3:cpu:/\n1:name=systemd:/system.slice/a.service\n0::/\n".into(),
                "/system.slice/a.service",
            ),
            ("4:memory:/jobs/7\n0::/\n".into(), "/"),
            ("0::/with:colon\n".into(), "/with:colon"),
        ] {
            assert_eq!(best_path(&lines).as_deref(), Some(path), "{lines}");
        }
        assert_eq!(best_path("no colons\n"), None);
    }

    #[test]
    fn a_process_has_the_group_of_its_file_and_an_ended_one_that_of_its_number() {
        let root = Root::new("groups");
        let id = root.group("system.slice/nginx.service");
        root.write("proc/7/cgroup", &format!("0::/system.slice/docker-{ID}.scope\n"));
        let config = format!("var/lib/docker/containers/{ID}/config.v2.json");
        root.write(&config, r#"{"Name": "/web"}"#);
        let mut groups = ControlGroups::below(&root.0);
        let of_docker = format!("/system.slice/docker-{ID}.scope [container web]");
        assert_eq!(words(groups.of(7, id)), of_docker);
        let of_number = "/system.slice/nginx.service [unit nginx.service]";
        assert_eq!(words(groups.of(8, id)), of_number);
        assert_eq!(words(groups.of(9, 0)), "none");
        assert_eq!(words(groups.of(9, u64::MAX)), "none");
        // What is found is kept for a moment, also without its file.
        fs::remove_dir_all(root.0.join("proc")).unwrap();
        assert_eq!(words(groups.of(7, id)), of_docker);
    }

    #[test]
    fn a_file_that_is_too_long_has_no_group() {
        let root = Root::new("long-groups");
        let long = "0::/system.slice/a.service\n".repeat(PROC_BYTES_MAX as usize / 20);
        root.write("proc/7/cgroup", &long);
        fs::create_dir_all(root.0.join("proc/8")).unwrap();
        fs::write(root.0.join("proc/8/cgroup"), [b'0', b':', b':', 0xff]).unwrap();
        let mut groups = ControlGroups::below(&root.0);
        assert_eq!(words(groups.of(7, 0)), "none");
        assert_eq!(words(groups.of(8, 0)), "none");
    }

    #[test]
    fn folders_are_those_where_a_unit_a_container_or_a_pod_begins() {
        let root = Root::new("folders");
        let id = root.group("system.slice/nginx.service");
        root.group("system.slice/nginx.service/worker");
        root.group(&format!("docker/{ID}/system.slice/cron.service"));
        root.group("user.slice");
        let mut found = ControlGroups::below(&root.0).folders();
        found.sort_unstable_by(|one, other| one.group.path.cmp(&other.group.path));
        let words: Vec<_> = found.iter().map(|it| it.group.to_string()).collect();
        let inside = "container 0123456789ab, unit cron.service";
        assert_eq!(words, ["container 0123456789ab", inside, "unit nginx.service"]);
        assert_eq!(found[2].id, (id, 2));
        assert!(found[2].folder.ends_with("sys/fs/cgroup/system.slice/nginx.service"));
    }
}
