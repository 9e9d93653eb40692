//! Profiles: what they stand in for, what goes before them, and which are refused.

use crate::common::{Home, Server, each_case};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

const CONFIG: &str = "config/oboro/config.toml";

/// An owner with a token beside the file of profiles, and a server that asks for it.
fn homes() -> (Home, Home, Server) {
    let (owner, operator) = (Home::new(), Home::new());
    let token = operator.token("ward");
    let server = operator.serve("--tokens tokens");
    fs::create_dir_all(owner.path("config/oboro")).unwrap();
    owner.write("config/oboro/ward.token", token);
    (owner, operator, server)
}

fn write(owner: &Home, text: &str) {
    owner.write(CONFIG, text);
    fs::set_permissions(owner.path(CONFIG), Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn a_profile_has_server_token_and_key() {
    let (owner, _operator, server) = homes();
    let url = server.url();
    write(
        &owner,
        &format!(
            "default = \"ward\"\n[profile.ward]\nserver = \"{url}\"\ntoken-file = \"ward.token\"\nkey = \"mine.key\"\n\
             [profile.without]\nserver = \"{url}\"\n"
        ),
    );
    owner.done("keygen");
    assert!(owner.path("config/oboro/mine.key").exists());
    owner.write_fimi("rows.dat", &[vec![1, 2], vec![1]]);
    owner.json("encrypt rows.dat");
    owner.json("upload rows.oboro");
    let listed = owner.json("datasets");
    assert_eq!(listed.as_array().unwrap().len(), 1);

    // Another one, by its flag and by the environment; the flag goes before the environment.
    owner.refuses("datasets --profile without => token");
    owner.set("OBORO_PROFILE", "without");
    owner.refuses("datasets => token");
    owner.json("datasets --profile ward");
    owner.unset("OBORO_PROFILE");

    // A named profile goes before the environment.
    owner.set("OBORO_SERVER", "http://127.0.0.1:1");
    owner.refuses("datasets => cannot reach");
    owner.json("datasets --profile ward");
    owner.unset("OBORO_SERVER");

    // A directory is scrubbed here, not at the profile's server.
    let refused = owner.refused("scrub absent");
    assert!(!refused.contains("the server"), "{refused}");

    // The command line and the environment go before it.
    owner.write("other.token", "wrong");
    owner.refuses("datasets --token-file other.token => token");
    owner.set("OBORO_KEY", "absent.key");
    owner.refuses(
        "encrypt rows.dat --out more.oboro => absent.key
        encrypt rows.dat --out more.oboro --key-command false => --key-command",
    );
}

#[test]
fn a_token_goes_to_the_server_of_its_profile_only() {
    let (owner, _operator, server) = homes();
    let elsewhere = "server = \"http://127.0.0.1:1\"\ntoken-file = \"ward.token\"";
    write(
        &owner,
        &format!("default = \"ward\"\n[profile.ward]\n{elsewhere}\n"),
    );
    // It would have been let in with the token.
    owner.refuses(format!("datasets --server {} => token", server.url()));
    owner.set("OBORO_SERVER", server.url());
    owner.refuses("datasets => token");
    owner.json("datasets --token-file config/oboro/ward.token");
}

#[test]
fn a_file_that_cannot_be_meant_is_refused() {
    let (owner, ..) = homes();
    // No file, and none that is needed.
    owner.write_fimi("rows.dat", &[vec![1, 2], vec![1]]);
    owner.json("plan rows.dat");
    owner.refuses("plan rows.dat --profile ward => cannot read the profiles in … config.toml");
    each_case(
        r#"default = "ward" => unknown profile "ward" … config.toml has none
        [profile.a]\n[profile.b]\nserver = 3 => config.toml, line 3: expected a string, not: integer
        profiles = 1 => line 1: unknown setting "profiles"
        default = "a"\n[profile.a]\ntokenfile = "x" => unknown setting "tokenfile" … token-file
        default = "a"\n[profile.a]\nserver = "http://127.0.0.1:1"\nclient-cert = "x" => only one of client-cert and client-key
        default = "a"\n[profile.a]\ntoken-file = "x" => "token-file" without a server"#,
        |text| {
            write(&owner, &text.replace(r"\n", "\n"));
            owner.refused("plan rows.dat")
        },
    );
    // A link that leads nowhere is no absent file.
    fs::remove_file(owner.path(CONFIG)).unwrap();
    symlink("unmounted", owner.path(CONFIG)).unwrap();
    owner.refuses("plan rows.dat => cannot read the profiles in");
    fs::remove_file(owner.path(CONFIG)).unwrap();
    write(&owner, "[profile.a]\nserver = \"http://127.0.0.1:1\"");
    owner.json("plan rows.dat");
    fs::set_permissions(owner.path(CONFIG), Permissions::from_mode(0o664)).unwrap();
    owner.refuses("plan rows.dat => others can write … chmod go-w");
}

/// The current directory may be anybody's, and profiles have commands that are run.
#[test]
fn no_file_of_the_current_directory_is_taken() {
    let (owner, _operator, _server) = homes();
    write(&owner, "nonsense");
    owner.copy("config", ".config");
    owner.write_fimi("rows.dat", &[vec![1, 2], vec![1]]);
    owner.refused("plan rows.dat");
    for (configuration, home) in [("config", "/"), ("", "."), ("", "")] {
        owner.set("XDG_CONFIG_HOME", configuration);
        owner.set("HOME", home);
        owner.json("plan rows.dat");
    }
}
