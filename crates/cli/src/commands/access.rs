//! `oboro access`: grants of roles on an owner's data to other callers.

use crate::arguments::ServerArguments;
use crate::failure::Outcome;
use crate::output::Output;
use oboro_client::Grant;
use oboro_format::Roles;
use oboro_input::escaped;
use serde_json::{Value, json};
use std::fmt::Write;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Grant roles on a dataset or collection to the callers with a token's name.
    ///
    /// They then call it OWNER/NAME, where OWNER is the name of your token.
    Grant(ChangeArguments),
    /// Revoke roles; calls in progress go on.
    Revoke(ChangeArguments),
    /// List your grants.
    List(ServerArguments),
}

#[derive(clap::Args)]
pub struct ChangeArguments {
    /// Token name of the other callers; * for all callers.
    #[arg(value_name = "CALLER")]
    grantee: String,
    /// Roles, separated by commas: read (see it), count (mine it, or search it), fetch (its sealed columns), append
    /// (upload new versions), delete, administer (grant it to others).
    #[arg(value_name = "ROLES", value_parser = Roles::parse)]
    roles: Roles,
    /// Dataset or collection; * for all that you have.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

pub fn run(command: &Command, output: Output) -> Outcome {
    match command {
        Command::Grant(arguments) => change(arguments, output, |connection, grant| {
            connection.grant(grant)
        }),
        Command::Revoke(arguments) => change(arguments, output, |connection, grant| {
            connection.revoke(grant)
        }),
        Command::List(server) => list(server, output),
    }
}

fn change(
    arguments: &ChangeArguments,
    output: Output,
    change: impl FnOnce(&oboro_client::Connection, &Grant) -> Result<Roles, oboro_client::ClientError>,
) -> Outcome {
    let ChangeArguments {
        grantee,
        roles,
        name,
        server,
    } = arguments;
    let grant = Grant {
        grantee: grantee.clone(),
        name: name.clone(),
        roles: *roles,
    };
    let roles = change(&server.connect()?, &grant)?;
    let now = Grant { roles, ..grant };
    output.result(&described(&now), || line(&now))
}

fn list(server: &ServerArguments, output: Output) -> Outcome {
    let grants = server.connect()?.grants()?;
    let value: Vec<Value> = grants.iter().map(described).collect();
    output.result(&value, || {
        if grants.is_empty() {
            return "nothing is granted\n".to_owned();
        }
        grants.iter().map(line).collect()
    })
}

fn described(grant: &Grant) -> Value {
    let roles: Vec<_> = grant.roles.iter().map(|role| role.name()).collect();
    json!({ "caller": grant.grantee, "name": grant.name, "roles": roles })
}

fn line(grant: &Grant) -> String {
    let mut text = String::new();
    let (who, name) = (escaped(&grant.grantee), escaped(&grant.name));
    let _ = if grant.roles.is_empty() {
        writeln!(text, "{who} has no role on {name}")
    } else {
        writeln!(text, "{who} may {} {name}", grant.roles)
    };
    text
}
