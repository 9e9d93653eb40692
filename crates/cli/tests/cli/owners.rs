//! What one owner grants to another, and what was deleted by mistake, with the commands for it. Every call by every role is
//! tried in `crates/client/tests/client/owners.rs`.

use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server};

/// A server with tokens, and on it alice's dataset `rows`.
struct Scene {
    alice: Home,
    operator: Home,
    server: Server,
}

impl Scene {
    fn new() -> Self {
        let (alice, operator) = (Home::with_key(), Home::new());
        alice.write("token", operator.token("alice"));
        let server = operator.serve("--tokens tokens");
        alice.talk_to(server.url());
        alice.set("OBORO_TOKEN_FILE", "token");
        alice.write_fimi("rows.dat", &random_baskets(300, 6, 128));
        alice.json("encrypt rows.dat --max-len 2");
        alice.json("upload rows.oboro");
        Self {
            alice,
            operator,
            server,
        }
    }

    /// Bob, who has a copy of alice's directory and key, as a second analyst would.
    fn bob(&self) -> Home {
        let bob = Home::new();
        bob.write("token", self.operator.token("bob"));
        bob.talk_to(self.server.url());
        bob.set("OBORO_TOKEN_FILE", "token");
        for name in ["rows.oboro", "oboro.key", "rows.dat"] {
            bob.copy_tree(&self.alice, name);
        }
        bob
    }
}

#[test]
fn an_owner_grants_and_another_mines() {
    let scene = Scene::new();
    let bob = scene.bob();
    // What was fetched once would need no server again.
    let mine = "mine rows.oboro --min-support 10% --keep-cells 0 --name alice/rows";
    bob.refuses(format!("{mine} => no dataset named"));
    scene.alice.json("access grant bob read,count,fetch rows");
    assert_eq!(scene.alice.json("access list")[0]["caller"], "bob");
    for answers in ["cells", "moments --max-len 2"] {
        bob.json(&format!("{mine} --answers {answers}"));
    }
    assert_eq!(bob.json("datasets")[0]["name"], "alice/rows");
    bob.refuses("delete alice/rows --yes => the role delete … oboro access grant");
    scene.alice.json("access revoke bob read,count,fetch rows");
    bob.refuses(format!("{mine} => no dataset named"));
}

#[test]
fn an_append_that_absorbs_others_takes_the_role_to_delete() {
    let scene = Scene::new();
    let bob = scene.bob();
    bob.copy("rows.oboro", "copy.oboro");
    scene.alice.json("access grant bob read,append rows");
    bob.json("encrypt rows.dat --append-to rows.oboro");
    bob.refuses("upload rows.oboro --name alice/rows => the role delete … no-absorb");
    bob.json("encrypt rows.dat --append-to copy.oboro --no-absorb");
    bob.json("upload copy.oboro --name alice/rows");
}

#[test]
fn what_was_deleted_by_mistake_comes_back() {
    let scene = Scene::new();
    let owner = &scene.alice;
    owner.refuses("delete rows => --yes");
    owner.json("delete rows --yes");
    assert_eq!(owner.json("datasets --deleted")[0]["name"], "rows");
    owner.json("undelete rows --as again");
    owner.json("mine rows.oboro --min-support 10% --name again --verify rows.dat");
    owner.json("delete again --yes --now");
    assert_eq!(owner.json("datasets --deleted"), serde_json::json!([]));
    owner.refuses(
        "undelete again => no dataset named … was deleted here
        upload rows.oboro => ids are never used again",
    );
}
