//! Isolation of namespaces: data of one caller do not exist for another, unless granted.

use super::*;
use crate::store::Store;
use crate::store::policy::{Policy, Quota};
use crate::testing::{ID, append, bundle, one_limb, rewrite, send_as};
use oboro_format::DEFAULT_NAMESPACE;
use oboro_format::{ErrorKind, Manifest};
use tempfile::TempDir;

impl Access {
    /// Receives a segment of the upload of this dataset, of any version.
    pub(crate) fn receive_pending(
        &self,
        dataset: DatasetId,
        index: u32,
        offset: u64,
    ) -> Result<SegmentReceiver, StoreError> {
        self.receive_segment(dataset, self.pending_root(dataset), index, offset)
    }

    /// Publishes the upload of this dataset, or its published version again.
    pub(crate) fn publish_pending(
        &self,
        dataset: DatasetId,
    ) -> Result<PublishedVersion, StoreError> {
        self.publish(dataset, self.pending_root(dataset))
    }

    fn pending_root(&self, dataset: DatasetId) -> Digest {
        let namespace = self.namespaces.get(&self.caller).unwrap();
        namespace.pending_root(dataset).unwrap_or(Digest([0; 32]))
    }
}

struct Setting {
    _directory: TempDir,
    bundle: Bundle,
    store: Store,
}

impl Setting {
    /// Creates a store in which alice has published `rows`.
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let bundle = bundle(&directory.path().join("rows"), &one_limb(), &[2]);
        let store = Store::open(&directory.path().join("store")).unwrap();
        let setting = Self {
            _directory: directory,
            bundle,
            store,
        };
        setting.publish(&setting.of("alice"), "rows", &setting.bundle);
        setting
    }

    fn of(&self, caller: &str) -> Access {
        self.store.access_of(caller, Roles::OWNER)
    }

    fn publish(&self, access: &Access, name: &str, bundle: &Bundle) {
        send_as(access, name, bundle);
        let dataset = bundle.manifest().dataset;
        access
            .of_upload(name)
            .unwrap()
            .publish_pending(dataset)
            .unwrap();
    }

    fn root(&self) -> Digest {
        self.bundle.manifest().root()
    }

    fn grant(&self, grantee: &str, name: &str, roles: &str) {
        let grant = Grant {
            grantee: grantee.into(),
            name: name.into(),
            roles: Roles::parse(roles).unwrap(),
        };
        self.of("alice").grant(&grant).unwrap();
    }

    /// Performs every operation on a name; returns each required role with the result.
    fn all_about(&self, access: &Access, name: &str) -> Vec<(Role, Result<(), StoreError>)> {
        let manifest = self.bundle.manifest().encode();
        let root = self.root();
        let uploading = access.of_upload(name);
        let send = uploading
            .as_ref()
            .map(|it| it.receive_pending(ID, 0, 0).map(drop));
        let send = send.unwrap_or_else(|_| access.of_upload(name).map(drop));
        let publish = access
            .of_upload(name)
            .and_then(|it| it.publish_pending(ID).map(drop));
        vec![
            (Role::Read, access.snapshot(name).map(drop)),
            (Role::Read, access.scrub(Some(name)).map(drop)),
            (Role::Count, access.snapshot_at(name, root).map(drop)),
            (Role::Fetch, access.columns_at(name, root).map(drop)),
            (Role::Append, access.begin_upload(name, &manifest).map(drop)),
            (Role::Append, send),
            (Role::Append, publish),
            (Role::Append, access.import(name, &self.bundle).map(drop)),
            (Role::Append, access.cancel_upload(name).map(drop)),
            (Role::Delete, access.undelete(name, None).map(drop)),
            (Role::Delete, access.delete(name).map(drop)),
            (Role::Delete, access.delete_now(name).map(drop)),
        ]
    }
}

#[test]
fn what_others_have_is_as_absent_as_what_nobody_has() {
    let setting = Setting::new();
    let bob = setting.of("bob");
    let opened = || setting.store.namespaces.opened().len();
    let before = opened();
    let refusal = |name: &str| {
        let all = setting.all_about(&bob, name).into_iter();
        let said = all.map(|(_, answer)| answer.unwrap_err().to_string().replace(name, "NAME"));
        said.collect::<Vec<_>>()
    };
    let present = refusal("alice/rows");
    assert_eq!(present, refusal("alice/none"));
    assert_eq!(present, refusal("nobody/rows"));
    // Neither lookup touched the other namespace.
    assert_eq!(opened(), before);
    let lookups = setting.store.namespaces.get("alice").unwrap();
    let lookups = || lookups.state().catalogue.lookups();
    let before = lookups();
    refusal("alice/rows");
    assert_eq!(lookups(), before);
    assert!(bob.list().unwrap().datasets.is_empty());
    // The owner's dataset is unchanged.
    setting.of("alice").snapshot("rows").unwrap();
}

#[test]
fn the_same_id_and_name_may_be_everybodys() {
    let setting = Setting::new();
    let (alice, bob, nameless) = (
        setting.of("alice"),
        setting.of("bob"),
        setting.store.access(),
    );
    for other in [&bob, &nameless] {
        let refused = other.publish_pending(ID).unwrap_err();
        assert!(
            matches!(refused, StoreError::Upload(UploadError::NoUpload { .. })),
            "{refused}"
        );
        setting.publish(other, "rows", &setting.bundle);
    }
    // Changes by one caller do not affect the others, not even notes.
    let longer = append(&setting.bundle, &[1]);
    setting.publish(&bob, "rows", &longer);
    bob.delete_now("rows").unwrap();
    for other in [&alice, &nameless] {
        assert_eq!(other.snapshot("rows").unwrap().root(), setting.root());
        assert_eq!(other.list().unwrap().datasets.len(), 1);
    }
    let refused = bob.begin_upload("rows", &longer.manifest().encode());
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, StoreError::Upload(UploadError::Purged { .. })),
        "{refused}"
    );
    drop((alice, bob, nameless));
    let Setting {
        _directory: directory,
        bundle,
        store,
    } = setting;
    drop(store);
    let store = Store::open(&directory.path().join("store")).unwrap();
    for name in ["alice", DEFAULT_NAMESPACE] {
        let access = store.access_of(name, Roles::OWNER);
        let root = access.snapshot("rows").unwrap().root();
        assert_eq!(root, bundle.manifest().root());
    }
}

#[test]
fn a_grant_lets_in_to_what_it_says_and_to_nothing_else() {
    for role in Role::GRANTABLE {
        let setting = Setting::new();
        let bob = setting.of("bob");
        setting.grant("bob", "rows", role.name());
        for (needed, answer) in setting.all_about(&bob, "alice/rows") {
            let kind = answer.as_ref().err().map(StoreError::kind);
            let is_let_in = kind != Some(ErrorKind::Forbidden);
            assert_eq!(is_let_in, needed == role, "{role}: {needed}: {answer:?}");
        }
        // Nothing else, for no other caller, and no more than the token's roles.
        let none = |access: &Access, name: &str| {
            for (needed, answer) in setting.all_about(access, name) {
                let kind = answer.unwrap_err().kind();
                assert_eq!(kind, ErrorKind::NotFound, "{needed}");
            }
        };
        none(&bob, "alice/other");
        none(&setting.of("carol"), "alice/rows");
        let without = Roles::OWNER.iter().filter(|&it| it != role).collect();
        let weak = setting.store.access_of("bob", without);
        for (_, answer) in setting.all_about(&weak, "alice/rows") {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Forbidden);
        }
    }
}

#[test]
fn a_token_without_a_role_may_not_even_at_home() {
    for role in Role::GRANTABLE {
        let without: Roles = Roles::OWNER.iter().filter(|&it| it != role).collect();
        for name in ["rows", "alice/rows", "none"] {
            let setting = Setting::new();
            let alice = setting.store.access_of("alice", without);
            for (needed, answer) in setting.all_about(&alice, name) {
                let kind = answer.as_ref().err().map(StoreError::kind);
                let is_let_in = kind != Some(ErrorKind::Forbidden);
                assert_eq!(is_let_in, needed != role, "{needed}: {answer:?}");
            }
        }
        let setting = Setting::new();
        let only = setting.store.access_of("alice", role.into());
        let listed = only.list().map(drop).map_err(|it| it.kind());
        assert_eq!(listed.is_ok(), role == Role::Read);
        assert_eq!(only.grants().is_ok(), role == Role::Administer);
    }
}

#[test]
fn datasets_of_others_are_listed_by_their_owner_and_used() {
    let setting = Setting::new();
    let bob = setting.of("bob");
    setting.publish(&bob, "own", &setting.bundle);
    setting.publish(&setting.of("alice"), "more", &other_of(&setting));
    let names = |access: &Access| {
        let listed = access.list().unwrap().datasets.into_iter();
        listed.map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&bob), ["own"]);
    setting.grant("bob", "rows", "read,count,append");
    assert_eq!(names(&bob), ["own", "alice/rows"]);
    bob.snapshot_at("alice/rows", setting.root()).unwrap();
    // A caller with the role to append continues the dataset, by its name only.
    let longer = append(&setting.bundle, &[1]);
    send_as(&bob, "alice/rows", &longer);
    let elsewhere = bob.of_upload("alice/more");
    assert_eq!(elsewhere.err().unwrap().kind(), ErrorKind::NotFound);
    let dataset = longer.manifest().dataset;
    bob.of_upload("alice/rows")
        .unwrap()
        .publish_pending(dataset)
        .unwrap();
    let root = setting.of("alice").snapshot("rows").unwrap().root();
    assert_eq!(root, longer.manifest().root());
    // Grants to everyone, on everything.
    setting.grant("*", "*", "read");
    setting.of("carol").snapshot("alice/more").unwrap();
    // Grants to everyone do not show up in everyone's list, except the operator's.
    assert!(names(&setting.of("carol")).is_empty());
    setting.publish(&setting.store.access(), "namespace", &setting.bundle);
    let grant = Grant {
        grantee: "*".into(),
        name: "*".into(),
        roles: Role::Read.into(),
    };
    setting.store.access().grant(&grant).unwrap();
    assert_eq!(names(&setting.of("carol")), ["default/namespace"]);
    setting.store.access().revoke(&grant).unwrap();
    assert_eq!(names(&setting.of("alice")), ["more", "rows"]);
    let revoked = Grant {
        grantee: "*".into(),
        name: "*".into(),
        roles: Roles::OWNER,
    };
    assert!(setting.of("alice").revoke(&revoked).unwrap().is_empty());
    assert!(names(&setting.of("carol")).is_empty());
    assert_eq!(setting.of("alice").grants().unwrap().len(), 1);
    // Roles of tokens and invalid names cannot be granted.
    for (grantee, name, roles) in [
        ("bob", "rows", Roles::ALL),
        ("bo b", "rows", Roles::OWNER),
        ("bob", "../x", Roles::OWNER),
        ("alice", "rows", Roles::OWNER),
    ] {
        let grant = Grant {
            grantee: grantee.into(),
            name: name.into(),
            roles,
        };
        let refused = setting.of("alice").grant(&grant).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    }
}

/// Creates another dataset.
fn other_of(setting: &Setting) -> Bundle {
    let path = setting._directory.path().join("other");
    oboro_format::testing::bundle_of(DatasetId([7; 16]), &path, &one_limb(), &[1])
}

#[test]
fn what_was_deleted_comes_back_until_it_expires() {
    let setting = Setting::new();
    let alice = setting.of("alice");
    let snapshot = alice.snapshot("rows").unwrap();
    alice.delete("rows").unwrap();
    assert_eq!(
        alice.snapshot("rows").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let [deleted] = &alice.deleted().unwrap()[..] else {
        panic!("one was deleted");
    };
    assert_eq!((&*deleted.name, deleted.dataset), ("rows", ID));
    let again = alice.begin_upload("again", &setting.bundle.manifest().encode());
    let again = again.unwrap_err();
    assert!(
        matches!(again, StoreError::Upload(UploadError::Deleted { .. })),
        "{again}"
    );
    // Its name is free, and it is restored under another one.
    setting.publish(&alice, "rows", &other_of(&setting));
    let taken = alice.undelete("rows", None).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists, "{taken}");
    assert_eq!(alice.undelete("rows", Some("old")).unwrap(), ID);
    assert_eq!(alice.snapshot("old").unwrap().root(), snapshot.root());
    alice.delete("rows").unwrap();
    alice.delete("old").unwrap();
    // Two have one name: the id selects.
    alice.undelete("old", Some("rows")).unwrap();
    alice.delete("rows").unwrap();
    let several = alice.undelete("rows", None).unwrap_err();
    assert!(
        matches!(several, StoreError::SeveralDeleted { .. }),
        "{several}"
    );
    alice.undelete(&ID.to_string(), None).unwrap();
    // They outlast a restart, and then expire.
    let week = alice.deleted().unwrap()[0].until;
    assert_eq!(setting.store.expire(week - 60).0, 0);
    assert_eq!(setting.store.expire(week + 60).0, 1);
    assert!(alice.deleted().unwrap().is_empty());
    let gone = alice.begin_upload("x", &other_of_again(&setting));
    let gone = gone.unwrap_err();
    assert!(
        matches!(gone, StoreError::Upload(UploadError::Purged { .. })),
        "{gone}"
    );
    alice.snapshot("rows").unwrap();
}

/// Returns the manifest of the other dataset.
fn other_of_again(setting: &Setting) -> Vec<u8> {
    let path = setting._directory.path().join("other");
    Bundle::open(&path).unwrap().manifest().encode()
}

#[test]
fn an_upload_that_nobody_goes_on_with_is_cancelled() {
    let setting = Setting::new();
    let alice = setting.of("alice");
    let other = other_of(&setting);
    alice
        .begin_upload("other", &other.manifest().encode())
        .unwrap();
    let receiver = alice
        .receive_pending(other.manifest().dataset, 0, 0)
        .unwrap();
    let [upload] = &alice.uploads().unwrap()[..] else {
        panic!("one was begun");
    };
    assert_eq!((&*upload.name, upload.received_bytes), ("other", 0));
    // An active sender is not interrupted.
    let late = upload.until + 60;
    assert_eq!(setting.store.expire(late).1, 0);
    drop(receiver);
    assert_eq!(setting.store.expire(upload.until - 60).1, 0);
    assert_eq!(setting.store.expire(late).1, 1);
    assert!(alice.uploads().unwrap().is_empty());
}

#[test]
fn quotas_are_of_one_owner() {
    let setting = Setting::new();
    let other = other_of(&setting);
    let manifest = other.manifest().encode();
    let used = setting.of("alice").usage().unwrap();
    assert_eq!((used.datasets, used.uploads), (1, 0));
    let more = other.manifest().segment_bytes() + manifest.len() as u64;
    let with = |quota: Quota| {
        setting.store.set_policy(Policy {
            quota,
            ..Policy::default()
        });
    };
    let refused = |name: &str| {
        let begun = setting.of("alice").begin_upload(name, &manifest);
        let error = begun.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Quota, "{error}");
        error.to_string()
    };
    with(Quota {
        datasets: Some(1),
        ..Quota::default()
    });
    assert!(refused("other").contains("1 datasets"));
    with(Quota {
        bytes: Some(used.bytes + more - 1),
        ..Quota::default()
    });
    assert!(refused("other").contains("bytes"));
    // Deleted datasets count as long as they can be restored.
    setting.of("alice").delete("rows").unwrap();
    assert!(refused("other").contains("bytes"));
    setting.of("alice").undelete("rows", None).unwrap();
    // Others have their own quota; an append is no new dataset.
    setting.of("bob").begin_upload("other", &manifest).unwrap();
    with(Quota {
        datasets: Some(1),
        bytes: Some(used.bytes + more),
        uploads: Some(1),
    });
    let longer = append(&setting.bundle, &[1]);
    let alice = setting.of("alice");
    alice
        .begin_upload("rows", &longer.manifest().encode())
        .unwrap();
    with(Quota {
        uploads: Some(1),
        ..Quota::default()
    });
    let refusal = refused("other");
    assert!(refusal.contains("1 unfinished uploads"), "{refusal}");
    assert!(refusal.contains("oboro upload --cancel"), "{refusal}");
    assert!(!refusal.contains("oboro delete"), "{refusal}");
    alice.cancel_upload("rows").unwrap();
    alice.begin_upload("other", &manifest).unwrap();
}

#[test]
fn who_may_delete_gains_no_other_role_by_bringing_back() {
    let setting = Setting::new();
    let bob = setting.of("bob");
    setting.grant("bob", "rows", "delete");
    setting.grant("bob", "open", "delete,read,count,fetch");
    bob.delete("alice/rows").unwrap();
    for name in ["open", "alice/open", "bob/open"] {
        let refused = bob.undelete("alice/rows", Some(name)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Forbidden, "{name}: {refused}");
    }
    bob.undelete("alice/rows", None).unwrap();
    assert_eq!(setting.of("alice").list().unwrap().datasets[0].name, "rows");
    // The owner may prefix its own namespace.
    let alice = setting.of("alice");
    alice.delete("rows").unwrap();
    alice.undelete("rows", Some("alice/open")).unwrap();
    alice.snapshot("open").unwrap();
}

#[test]
fn who_may_append_learns_no_other_names() {
    let setting = Setting::new();
    let bob = setting.of("bob");
    setting.grant("bob", "new", "append");
    let manifest = setting.bundle.manifest().encode();
    let said = || {
        let refused = bob.begin_upload("alice/new", &manifest).unwrap_err();
        assert!(!refused.to_string().contains("rows"), "{refused}");
        refused.to_string()
    };
    let published = said();
    setting.of("alice").delete("rows").unwrap();
    assert_eq!(said(), published);
    setting.of("alice").delete_now("rows").unwrap();
    assert_eq!(said(), published);
}

#[test]
fn of_several_deleted_ones_the_meant_one_goes_for_ever() {
    let setting = Setting::new();
    let alice = setting.of("alice");
    alice.delete("rows").unwrap();
    let other = other_of(&setting);
    setting.publish(&alice, "rows", &other);
    alice.delete("rows").unwrap();
    let several = alice.delete_now("rows").unwrap_err();
    assert!(
        matches!(several, StoreError::SeveralDeleted { .. }),
        "{several}"
    );
    let other = other.manifest().dataset;
    assert_eq!(alice.delete_now(&other.to_string()).unwrap(), other);
    assert_eq!(alice.deleted().unwrap()[0].dataset, ID);
    assert_eq!(alice.delete_now("rows").unwrap(), ID);
    let none = alice.delete_now("rows").unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound, "{none}");
}

#[test]
fn who_may_append_loses_nothing_that_is_there() {
    let setting = Setting::new();
    let bob = setting.of("bob");
    setting.grant("bob", "rows", "append");
    let longer = append(&setting.bundle, &[1]);
    setting.publish(&bob, "alice/rows", &longer);
    let manifest = rewrite(&longer, 1, &[&setting.bundle]).manifest().encode();
    let refused = bob.begin_upload("alice/rows", &manifest).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden, "{refused}");
    let far = Manifest {
        version: u64::MAX,
        ..longer.manifest().appended()
    };
    bob.begin_upload("alice/rows", &far.encode()).unwrap_err();
    let feed = Roles::OWNER
        .iter()
        .filter(|&it| it != Role::Delete)
        .collect();
    let feed = setting.store.access_of("alice", feed);
    let refused = feed.begin_upload("rows", &manifest).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden, "{refused}");
    setting.grant("bob", "rows", "delete");
    bob.begin_upload("alice/rows", &manifest).unwrap();
}
