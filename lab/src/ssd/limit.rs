//! Control groups, version 1 or 2, that limit a process's memory and its reads from a disk.
//!
//! A group is created below that of this process if the version allows it, so that existing limits stay in force, and
//! is removed when dropped; it must have no processes then.

use rustix::fs::Access;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Enters the groups named before `--`, then executes the program after it.
const ENTER: &str =
    r#"while [ "$1" != -- ]; do echo $$ > "$1" || exit; shift; done; shift; exec "$@""#;

/// What a process may use.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Bytes; pages beyond it are swapped.
    pub memory: Option<u64>,
    /// `MAJOR:MINOR` of the throttled disk, and bytes per second.
    pub reads_per_second: Option<(String, u64)>,
}

/// Groups that limit the processes started in them.
pub struct Groups(Vec<Group>);

impl Limits {
    /// Creates the groups, none if there are no limits; or says why they cannot be created.
    pub fn impose(&self) -> Result<Groups, String> {
        let needed = match (self.memory, &self.reads_per_second) {
            (None, None) => return Ok(Groups(Vec::new())),
            (Some(_), None) => vec![Controller::Memory],
            (None, Some(_)) => vec![Controller::Disk],
            (Some(_), Some(_)) => vec![Controller::Memory, Controller::Disk],
        };
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        let hierarchy = Hierarchy::find(&read("/proc/self/mounts"), &read("/proc/self/cgroup"))
            .ok_or("no control groups are mounted below /sys/fs/cgroup")?;
        hierarchy.make(&needed).and_then(|groups| {
            for (group, file, value) in self.settings(hierarchy.version, &groups) {
                group.write(file, &value)?;
            }
            Ok(Groups(groups))
        })
    }

    /// The values to write to files, those of memory first. Swap is unlimited unless set.
    fn settings<'g>(
        &self,
        version: Version,
        groups: &'g [Group],
    ) -> Vec<(&'g Group, &'static str, String)> {
        let memory = self.memory.map(|bytes| {
            let file = match version {
                Version::One => "memory.limit_in_bytes",
                Version::Two => "memory.max",
            };
            (file, bytes.to_string())
        });
        let disk = self
            .reads_per_second
            .as_ref()
            .map(|(number, rate)| match version {
                Version::One => ("blkio.throttle.read_bps_device", format!("{number} {rate}")),
                Version::Two => ("io.max", format!("{number} rbps={rate}")),
            });
        let memory = groups.first().zip(memory);
        let disk = groups.last().zip(disk);
        let settings = memory.into_iter().chain(disk);
        settings
            .map(|(group, (file, value))| (group, file, value))
            .collect()
    }
}

impl Groups {
    /// A command that runs `program` in the groups, with arguments added by the caller.
    pub fn command(&self, program: &OsStr) -> Command {
        if self.0.is_empty() {
            return Command::new(program);
        }
        let mut command = Command::new("sh");
        command.args(["-c", ENTER, "sh"]);
        for group in &self.0 {
            command.arg(group.directory.join("cgroup.procs"));
        }
        command.arg("--").arg(program);
        command
    }
}

impl Groups {
    /// The number of their processes that the kernel's OOM killer ended.
    pub fn kills(&self) -> u64 {
        let kills_of = |group: &Group| {
            let events = ["memory.oom_control", "memory.events"];
            let events = events.map(|file| fs::read_to_string(group.directory.join(file)));
            events.iter().flatten().find_map(|text| kills(text))
        };
        self.0.iter().filter_map(kills_of).sum()
    }
}

/// Parses the file of either version.
fn kills(events: &str) -> Option<u64> {
    let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
    events.lines().find_map(count)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Controller {
    Memory,
    Disk,
}

impl Controller {
    fn name(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Memory, _) => "memory",
            (Self::Disk, Version::One) => "blkio",
            (Self::Disk, Version::Two) => "io",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    One,
    Two,
}

/// The mount points of control groups, and the groups of this process.
#[derive(Debug, PartialEq)]
struct Hierarchy {
    version: Version,
    /// For each controller of version 1, or all of version 2 under the empty name: the mount point and the group of
    /// this process in it.
    mounts: Vec<(String, PathBuf, PathBuf)>,
}

impl Hierarchy {
    /// From `/proc/self/mounts` and `/proc/self/cgroup`. Version 2 mounted without controllers next to version 1 is
    /// ignored.
    fn find(mounts: &str, own: &str) -> Option<Self> {
        let mut one = Vec::new();
        let mut two = Vec::new();
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, mount, kind, options, ..] = fields[..] else {
                continue;
            };
            match kind {
                "cgroup" => {
                    let controllers = options.split(',');
                    for name in controllers.filter(|name| ["memory", "blkio"].contains(name)) {
                        one.push((name.to_owned(), mount.into(), own_group(mount, own, name)));
                    }
                }
                "cgroup2" => two.push((String::new(), mount.into(), own_group(mount, own, ""))),
                _ => {}
            }
        }
        let (version, mounts) = if one.is_empty() {
            (Version::Two, two)
        } else {
            (Version::One, one)
        };
        (!mounts.is_empty()).then_some(Self { version, mounts })
    }

    /// Creates one group per controller in version 1, one for all in version 2.
    fn make(&self, needed: &[Controller]) -> Result<Vec<Group>, String> {
        let parents = match self.version {
            Version::One => needed
                .iter()
                .map(|controller| self.parent_of_one(controller.name(Version::One)))
                .collect::<Result<Vec<_>, _>>()?,
            Version::Two => vec![self.parent_of_all(needed)?],
        };
        parents.iter().map(|parent| Group::make(parent)).collect()
    }

    fn parent_of_one(&self, controller: &str) -> Result<PathBuf, String> {
        let mut mounts = self.mounts.iter();
        let found = mounts.find(|(name, ..)| name == controller);
        let (_, mount, own) =
            found.ok_or_else(|| format!("the control groups have no {controller}"))?;
        // Within a container, the group may be the mount itself.
        Ok(if own.is_dir() { own } else { mount }.clone())
    }

    /// The nearest ancestor group whose children have the controllers, after trying to enable them for those of the
    /// root.
    fn parent_of_all(&self, needed: &[Controller]) -> Result<PathBuf, String> {
        let (_, mount, own) = &self.mounts[0];
        let names: Vec<_> = needed.iter().map(|of| of.name(Version::Two)).collect();
        let missing = |group: &Path| {
            let control = fs::read_to_string(group.join("cgroup.subtree_control"));
            let control = control.unwrap_or_default();
            let given: Vec<_> = control.split_whitespace().collect();
            names.iter().any(|name| !given.contains(name))
        };
        let around = own.ancestors().take_while(|group| group.starts_with(mount));
        if let Some(group) = around.into_iter().find(|group| !missing(group)) {
            return Ok(group.to_owned());
        }
        let wanted: Vec<_> = names.iter().map(|name| format!("+{name}")).collect();
        let control = mount.join("cgroup.subtree_control");
        fs::write(&control, wanted.join(" ")).map_err(|error| {
            let names = names.join(" and ");
            format!("no control group offers {names} to a new one ({error})")
        })?;
        Ok(mount.clone())
    }
}

/// The directory of this process's group; `controller` is empty in version 2.
fn own_group(mount: &str, own: &str, controller: &str) -> PathBuf {
    let path = own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = controllers.split(',').any(|name| name == controller);
        is_it.then_some(path.trim_start_matches('/'))
    });
    Path::new(mount).join(path.unwrap_or(""))
}

/// A control group created by this process.
struct Group {
    directory: PathBuf,
}

impl Group {
    fn make(parent: &Path) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("oboro-bench-{}-{number}", std::process::id());
        let directory = parent.join(name);
        let made = rustix::fs::access(parent, Access::WRITE_OK)
            .map_err(std::io::Error::from)
            .and_then(|()| fs::create_dir(&directory));
        made.map_err(|error| format!("no control group can be made ({error})"))?;
        Ok(Self { directory })
    }

    fn write(&self, file: &str, value: &str) -> Result<(), String> {
        fs::write(self.directory.join(file), value)
            .map_err(|error| format!("a control group refuses {file} ({error})"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just exited may still be listed.
        for _ in 0..50 {
            match fs::remove_dir(&self.directory) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    thread::sleep(Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
        cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";

    fn hierarchy(mount: &Path, own: &str) -> Hierarchy {
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", mount.display());
        Hierarchy::find(&mounts, own).unwrap()
    }

    #[test]
    fn controllers_of_version_1_have_a_mount_each() {
        let own = "7:blkio:/\n4:memory:/user/1\n0::/\n";
        let found = Hierarchy::find(ONE, own).unwrap();
        assert_eq!(found.version, Version::One);
        let mount = |name: &str| PathBuf::from(format!("/sys/fs/cgroup/{name}"));
        let expected = [
            ("memory".to_owned(), mount("memory"), mount("memory/user/1")),
            ("blkio".to_owned(), mount("blkio"), mount("blkio")),
        ];
        assert_eq!(found.mounts, expected);
        assert_eq!(Hierarchy::find("", own), None);
    }

    #[test]
    fn groups_of_version_1_lie_in_those_of_this_process() {
        let root = tempfile::tempdir().unwrap();
        let mount = |name: &str, own: &str| {
            let mount = root.path().join(name);
            (name.to_owned(), mount.clone(), mount.join(own))
        };
        let found = Hierarchy {
            version: Version::One,
            mounts: vec![mount("memory", "user"), mount("blkio", "elsewhere")],
        };
        fs::create_dir_all(root.path().join("memory/user")).unwrap();
        fs::create_dir_all(root.path().join("blkio")).unwrap();
        let groups = found.make(&[Controller::Memory, Controller::Disk]).unwrap();
        let parents: Vec<_> = groups
            .iter()
            .map(|group| group.directory.parent().unwrap().to_owned())
            .collect();
        assert_eq!(
            parents,
            [root.path().join("memory/user"), root.path().join("blkio")]
        );
        let limits = Limits {
            memory: Some(1 << 20),
            reads_per_second: Some(("8:0".to_owned(), 5)),
        };
        let settings: Vec<_> = limits
            .settings(Version::One, &groups)
            .into_iter()
            .map(|(group, file, value)| (&group.directory, file, value))
            .collect();
        let expected = [
            (
                &groups[0].directory,
                "memory.limit_in_bytes",
                "1048576".to_owned(),
            ),
            (
                &groups[1].directory,
                "blkio.throttle.read_bps_device",
                "8:0 5".to_owned(),
            ),
        ];
        assert_eq!(settings, expected);
        let directory = groups[0].directory.clone();
        assert!(directory.is_dir());
        drop(groups);
        assert!(!directory.exists());
    }

    #[test]
    fn groups_of_version_2_lie_where_children_have_the_controllers() {
        let root = tempfile::tempdir().unwrap();
        let control = |group: &str, text: &str| {
            let group = root.path().join(group);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cgroup.subtree_control"), text).unwrap();
        };
        control("", "cpu io memory\n");
        control("user", "cpu io memory\n");
        control("user/session", "");
        let found = hierarchy(root.path(), "0::/user/session\n");
        assert_eq!(found.version, Version::Two);
        let both = [Controller::Memory, Controller::Disk];
        assert_eq!(found.parent_of_all(&both), Ok(root.path().join("user")));
        control("user", "memory\n");
        let disk = [Controller::Disk];
        assert_eq!(found.parent_of_all(&disk), Ok(root.path().to_owned()));
        // Nobody has enabled them yet: the root group is tried.
        control("", "cpu\n");
        control("user", "");
        assert_eq!(found.parent_of_all(&both), Ok(root.path().to_owned()));
        let asked = fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(asked, "+memory +io");

        let groups = found.make(&[Controller::Memory]).unwrap();
        let limits = Limits {
            memory: Some(9),
            reads_per_second: Some(("8:0".to_owned(), 5)),
        };
        let settings: Vec<_> = limits
            .settings(Version::Two, &groups)
            .into_iter()
            .map(|(_, file, value)| (file, value))
            .collect();
        let expected = [("memory.max", "9"), ("io.max", "8:0 rbps=5")];
        let expected = expected.map(|(file, value)| (file, value.to_owned()));
        assert_eq!(settings, expected);
    }

    #[test]
    fn kills_are_counted_by_both_versions() {
        assert_eq!(
            kills("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            Some(2)
        );
        assert_eq!(
            kills("low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n"),
            Some(3)
        );
        assert_eq!(kills("nothing\n"), None);
    }

    #[test]
    fn what_is_not_limited_is_in_no_group() {
        let groups = Limits::default().impose().unwrap();
        let command = groups.command("true".as_ref());
        assert_eq!(command.get_program(), "true");
        assert_eq!(command.get_args().count(), 0);
    }

    #[test]
    fn programs_enter_their_groups_first() {
        let root = tempfile::tempdir().unwrap();
        let group = Group::make(root.path()).unwrap();
        let entered = group.directory.join("cgroup.procs");
        let groups = Groups(vec![group]);
        let ended = groups
            .command("sh".as_ref())
            .args(["-c", "echo $$ \"$1\"", "sh", "-- it's"])
            .output()
            .unwrap();
        let said = String::from_utf8(ended.stdout).unwrap();
        let process = fs::read_to_string(&entered).unwrap();
        assert_eq!(said, format!("{} -- it's\n", process.trim()));
        fs::remove_file(entered).unwrap();
    }
}
