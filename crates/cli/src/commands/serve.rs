//! `oboro serve`

use crate::Outcome;
use crate::arguments::{ThreadArguments, first_line, read};
use crate::output::Output;
use oboro_server::{Options, Server};
use serde_json::json;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub struct Arguments {
    /// The directory that datasets are stored in.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The address to listen on. Beyond loopback, TLS and a token are required.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7171")]
    listen: SocketAddr,
    /// The server's certificate chain, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Callers must bear the token on the first line of this file.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("OBORO_LOG")
                .unwrap_or_else(|_| "info".into()),
        )
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            Some((read(certificate, "TLS certificate")?, read(key, "TLS key")?))
        }
        _ => None,
    };
    let token = arguments
        .token_file
        .as_deref()
        .map(|path| first_line(path, "token"))
        .transpose()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let options = Options {
        data: arguments.data.clone(),
        listen: arguments.listen,
        tls,
        token: token.map(|token| token.as_str().into()),
        threads: arguments.threads.count(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let server = Server::bind(options).await?;
        let url = format!("{scheme}://{}", server.address());
        output.result(&json!({ "listening": url }), || {
            format!("listening on {url}\n")
        })?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        server
            .serve(async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                tracing::info!("shutting down; a second signal ends at once");
                tokio::spawn(async move {
                    tokio::select! {
                        _ = terminate.recv() => {}
                        _ = interrupt.recv() => {}
                    }
                    // What is on disk is complete or resumes: nothing needs a farewell.
                    std::process::exit(1);
                });
            })
            .await?;
        Ok(())
    })
}
