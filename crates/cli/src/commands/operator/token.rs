//! `oboro token`: creates, lists and revokes the tokens that callers of a server present.

use crate::failure::{Failure, Outcome};
use crate::output::{Output, OutputFile};
use oboro_format::{Role, Roles};
use oboro_server::{Token, TokenFile, parse_date};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{PathBuf, absolute};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Create a token for a caller; a server that has the file open accepts it at once.
    New(NewArguments),
    /// List the tokens in a file: names, ids, last days and roles.
    List(FileArguments),
    /// Revoke tokens; a server that has the file open refuses them at once and ends their calls.
    Revoke(RevokeArguments),
}

#[derive(clap::Args)]
pub struct FileArguments {
    /// File of token hashes, as given to `oboro serve --tokens`.
    #[arg(long, value_name = "FILE", default_value = "tokens")]
    tokens: PathBuf,
}

#[derive(clap::Args)]
pub struct NewArguments {
    /// Name of the caller. A server does not distinguish callers whose tokens have the same name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    file: FileArguments,
    /// A role: read, count, fetch, append, delete, administer or operate. Repeat the option, or separate roles by commas
    /// [default: all but operate].
    #[arg(long = "role", value_name = "ROLE", value_delimiter = ',', value_parser = Roles::parse)]
    roles: Vec<Roles>,
    /// Last day of validity, in UTC, as 2027-03-31 [default: no end].
    #[arg(long, value_name = "DATE")]
    until: Option<String>,
    /// Write the token to this file in place of printing it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl NewArguments {
    fn roles(&self) -> Roles {
        if self.roles.is_empty() {
            return Roles::OWNER;
        }
        self.roles.iter().flat_map(|it| it.iter()).collect()
    }
}

#[derive(clap::Args)]
pub struct RevokeArguments {
    /// Name or id of the tokens.
    #[arg(value_name = "NAME|ID")]
    which: String,
    #[command(flatten)]
    file: FileArguments,
}

pub fn run(command: &Command, output: Output) -> Outcome {
    match command {
        Command::New(arguments) => new(arguments, output),
        Command::List(arguments) => list(arguments, output),
        Command::Revoke(arguments) => revoke(arguments, output),
    }
}

fn new(arguments: &NewArguments, output: Output) -> Outcome {
    let until = arguments.until.as_deref().map(parse_date).transpose()?;
    let tokens = &arguments.file.tokens;
    if let Some(out) = &arguments.out
        && absolute(out)? == absolute(tokens)?
    {
        return Err(Failure::input(format!(
            "{} is the file of hashes; write the token to another file with --out",
            out.display()
        )));
    }
    let out = arguments
        .out
        .as_deref()
        .map(OutputFile::prepare_new)
        .transpose()?;
    let file = TokenFile::at(tokens);
    let (token, secret) = file.add(&arguments.name, arguments.roles(), until)?;
    let printed = print_token(arguments, out, &token, &secret, output);
    if printed.is_err() {
        // A token that was not delivered must not stay valid.
        file.revoke(&token.id())?;
    }
    printed
}

/// Writes the token to a file, or prints it.
fn print_token(
    arguments: &NewArguments,
    out: Option<OutputFile>,
    token: &Token,
    secret: &str,
    output: Output,
) -> Outcome {
    let shown = out.is_none().then_some(secret);
    if let Some(out) = out {
        out.private().write(format!("{secret}\n").as_bytes())?;
    }
    let value = json!({
        "name": token.name,
        "id": token.id(),
        "roles": roles(token),
        "until": token.until.map(|it| it.to_string()),
        "token": shown,
        "out": arguments.out,
    });
    output.result(&value, || match &arguments.out {
        Some(out) => format!(
            "wrote token {} of {} to {}\n",
            token.id(),
            token.name,
            out.display()
        ),
        None => format!("{secret}\n"),
    })
}

fn list(arguments: &FileArguments, output: Output) -> Outcome {
    let tokens = TokenFile::at(&arguments.tokens).tokens()?;
    let value: Vec<Value> = tokens.iter().map(describe).collect();
    output.result(&value, || table(&tokens))
}

fn revoke(arguments: &RevokeArguments, output: Output) -> Outcome {
    let revoked = TokenFile::at(&arguments.file.tokens).revoke(&arguments.which)?;
    let value: Vec<Value> = revoked.iter().map(describe).collect();
    output.result(&value, || {
        let ids: Vec<String> = revoked
            .iter()
            .map(|it| format!("{} of {}", it.id(), it.name))
            .collect();
        format!("revoked {}\n", ids.join(", "))
    })
}

fn describe(token: &Token) -> Value {
    json!({
        "name": token.name,
        "id": token.id(),
        "roles": roles(token),
        "until": token.until.map(|it| it.to_string()),
        "expired": token.is_expired(),
    })
}

fn roles(token: &Token) -> Vec<&'static str> {
    token.roles.iter().map(Role::name).collect()
}

fn table(tokens: &[Token]) -> String {
    let width = tokens
        .iter()
        .map(|it| it.name.len())
        .max()
        .unwrap_or(0)
        .max(4);
    let mut text = format!("{:width$}  id        until       roles\n", "name");
    for token in tokens {
        let until = token.until.map_or("no end".to_owned(), |it| it.to_string());
        let note = if token.is_expired() { ", expired" } else { "" };
        let (name, id, roles) = (&token.name, token.id(), token.roles);
        let _ = writeln!(text, "{name:width$}  {id}  {until:10}  {roles}{note}");
    }
    text
}
