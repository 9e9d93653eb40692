//! Disks that turn read-only or are full while a server has them: real file systems, which only root can mount. Elsewhere
//! these tests are skipped; `oboro-client` and `oboro-store` test the same on a disk of their own.
#![cfg(target_os = "linux")]

use crate::common::calls::connect;
use crate::common::http::get;
use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, says, until};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tokio::runtime::Runtime;
use tonic::Streaming;
use tonic::transport::Channel;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

const WRITES: &str = "oboro.v1.Mining/writes";

fn done(program: &str, arguments: &[&str]) -> bool {
    let ran = Command::new(program).args(arguments).output();
    ran.is_ok_and(|output| output.status.success())
}

/// A mounted file system, unmounted when this is dropped.
struct Mount(PathBuf);

impl Mount {
    /// `None`, and a word about it, where nothing can be mounted.
    fn new(home: &Home, options: &[&str]) -> Option<Self> {
        let at = home.path("disk");
        fs::create_dir_all(&at).unwrap();
        let arguments = [options, &[at.to_str().unwrap()]].concat();
        let mounted = done("mount", &arguments);
        if !mounted {
            println!("skipped: nothing can be mounted here");
        }
        mounted.then_some(Self(at))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let at = self.0.to_str().unwrap();
        let _ = done("umount", &[at]) || done("umount", &["-l", at]);
    }
}

/// An owner who has uploaded `rows` to a server on the disk.
fn uploaded(operator: &Home) -> (Home, Server) {
    let owner = Home::with_key();
    let server = operator.serve_from("disk/data", "--monitor=127.0.0.1:0");
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(500, 8, 128));
    owner.json("encrypt rows.dat --max-len 3");
    owner.json("upload rows.oboro");
    (owner, server)
}

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

fn health(runtime: &Runtime, server: &Server) -> HealthClient<Channel> {
    HealthClient::new(runtime.block_on(connect(server)))
}

fn until_logged(server: &Server, line: &str) {
    until(line, || server.log().contains(line).then_some(()));
}

/// Waits until a watch says this.
async fn until_health_is(watch: &mut Streaming<HealthCheckResponse>, status: ServingStatus) {
    while watch.message().await.unwrap().unwrap().status() != status {}
}

const MINE: &str = "mine rows.oboro --min-support 10% --verify rows.dat";

#[test]
fn a_disk_that_turns_read_only_answers_questions_and_refuses_writes() {
    let operator = Home::new();
    let image = operator.path("image");
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let image = image.to_str().unwrap();
    if !done("mkfs.ext4", &["-q", "-F", image]) {
        println!("skipped: no mkfs.ext4");
        return;
    }
    let options = ["-o", "loop,errors=remount-ro", image];
    let Some(mount) = Mount::new(&operator, &options) else {
        return;
    };
    let (owner, server) = uploaded(&operator);
    let runtime = Runtime::new().unwrap();
    let mut client = health(&runtime, &server);
    // As after an error of the device.
    let abort = ["-o", "remount,abort", mount.0.to_str().unwrap()];
    if !done("mount", &abort) {
        println!("skipped: the file system cannot be made read-only while it is in use");
        return;
    }
    for _ in 0..2 {
        let message = owner.refused("delete rows --yes --now");
        says(&message, &["read-only", "repair the disk"]);
        assert_eq!(owner.json("datasets").as_array().unwrap().len(), 1);
        owner.json(MINE);
        owner.json(&format!("{MINE} --trust-server"));
        owner.json("trust reset rows.oboro");
    }
    runtime.block_on(async {
        for (service, status) in [
            (WRITES, ServingStatus::NotServing),
            ("oboro.v1.Mining", ServingStatus::Serving),
            ("", ServingStatus::Serving),
        ] {
            let mut watch = client.watch(about(service)).await.unwrap().into_inner();
            until_health_is(&mut watch, status).await;
        }
    });
    until_logged(&server, "the disk takes no writes");
    let ready = get(server.monitor(), "/readyz", &[]);
    assert_eq!(ready.status, 503, "{ready:?}");
    says(
        &ready.body,
        &["[-] disk: the disk takes no writes", "[+] serving"],
    );
    server.kill();
    drop(mount);

    let _mount = Mount::new(&operator, &["-o", "loop", image]).unwrap();
    let server = operator.serve_from("disk/data", "");
    owner.talk_to(server.url());
    owner.json(MINE);
    owner.json("delete rows --yes --now");
}

#[test]
fn a_disk_that_takes_writes_again_is_found_out_without_a_restart() {
    let operator = Home::new();
    let options = ["-t", "tmpfs", "-o", "size=8m", "none"];
    let Some(mount) = Mount::new(&operator, &options) else {
        return;
    };
    let (owner, server) = uploaded(&operator);
    let runtime = Runtime::new().unwrap();
    let mut client = health(&runtime, &server);
    let watch = runtime.block_on(client.watch(about(WRITES)));
    let mut watch = watch.unwrap().into_inner();
    runtime.block_on(until_health_is(&mut watch, ServingStatus::Serving));
    // `dd` ends when the disk is full.
    let filler = format!("of={}", mount.0.join("filler").display());
    assert!(!done("dd", &["if=/dev/zero", &filler, "bs=4096"]));
    owner.json("encrypt rows.dat --out others.oboro --max-len 3");
    owner.refuses("upload others.oboro => disk full … resumes where it stopped");
    runtime.block_on(until_health_is(&mut watch, ServingStatus::NotServing));
    owner.json(MINE);
    fs::remove_file(mount.0.join("filler")).unwrap();
    // Without a write the server finds out by itself.
    runtime.block_on(until_health_is(&mut watch, ServingStatus::Serving));
    until_logged(&server, "the disk takes writes again");
    owner.json("upload others.oboro");
}
