//! Credentials: certificate authority, API server certificates, tokens, kubeconfigs.

use super::network::{API_SERVICE_ADDRESS, CONTROL_ADDRESS};
use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Creates missing credentials in `folder`; a lab keeps its keys.
pub fn create(folder: &Path, nodes: &[String]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if !folder.join("ca.crt").exists() {
        create_certificates(folder)?;
    }
    for who in
        ["admin", "controllers", "scheduler", "proxy"].into_iter().chain(nodes.iter().map(String::as_str))
    {
        let file = folder.join(format!("{who}.token"));
        if !file.exists() {
            let token =
                fs::read_to_string("/proc/sys/kernel/random/uuid").context("cannot read a random UUID")?;
            write_secret(&file, token.trim())?;
        }
    }
    write_token_file(folder, nodes)
}

fn create_certificates(folder: &Path) -> Result<()> {
    let key = KeyPair::generate()?;
    let mut params = certificate_params("ferroband-lab-ca", None)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key)?;
    let authority = Issuer::new(params, key);

    let mut server = certificate_params("kube-apiserver", None)?;
    for name in ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"] {
        server.subject_alt_names.push(SanType::DnsName(name.try_into()?));
    }
    for address in [CONTROL_ADDRESS, API_SERVICE_ADDRESS, "127.0.0.1"] {
        server.subject_alt_names.push(SanType::IpAddress(address.parse()?));
    }
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    issue_certificate(folder, "apiserver", &server, &authority)?;

    // Client certificate of the API server for kubelets: exec, logs, port-forward.
    let mut client = certificate_params("kube-apiserver-kubelet-client", Some("system:masters"))?;
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    issue_certificate(folder, "kubelet-client", &client, &authority)?;

    let accounts = KeyPair::generate()?;
    write_secret(&folder.join("service-accounts.key"), &accounts.serialize_pem())?;
    write_secret(&folder.join("service-accounts.pub"), &accounts.public_key_pem())?;
    write_secret(&folder.join("ca.crt"), &certificate.pem())
}

fn certificate_params(name: &str, group: Option<&str>) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    params.distinguished_name = subject;
    Ok(params)
}

fn issue_certificate(
    folder: &Path,
    name: &str,
    params: &CertificateParams,
    authority: &Issuer<'_, KeyPair>,
) -> Result<()> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    write_secret(&folder.join(format!("{name}.key")), &key.serialize_pem())?;
    write_secret(&folder.join(format!("{name}.crt")), &certificate.pem())
}

/// Writes the API server's token file: token, user, uid, groups.
fn write_token_file(folder: &Path, nodes: &[String]) -> Result<()> {
    let mut lines = vec![
        (String::from("admin"), String::from("admin"), "system:masters"),
        (String::from("controllers"), String::from("system:kube-controller-manager"), ""),
        (String::from("scheduler"), String::from("system:kube-scheduler"), ""),
        (String::from("proxy"), String::from("system:kube-proxy"), ""),
    ];
    lines.extend(nodes.iter().map(|n| (n.clone(), format!("system:node:{n}"), "system:nodes")));
    let mut text = String::new();
    for (who, user, groups) in lines {
        let token = read_token(folder, &who)?;
        text.push_str(&format!("{token},{user},{user},\"{groups}\"\n"));
    }
    write_secret(&folder.join("tokens.csv"), &text)
}

fn read_token(folder: &Path, who: &str) -> Result<String> {
    let file = folder.join(format!("{who}.token"));
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// The kubeconfig of `who`; `authority` is the path of the CA certificate for its reader.
pub fn kubeconfig(folder: &Path, who: &str, authority: &Path) -> Result<String> {
    let (token, authority) = (read_token(folder, who)?, authority.display());
    Ok(format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: lab\n\
         clusters:\n- name: lab\n  cluster: {{server: \"https://{CONTROL_ADDRESS}:6443\", certificate-authority: \"{authority}\"}}\n\
         users:\n- name: {who}\n  user: {{token: {token}}}\n\
         contexts:\n- name: lab\n  context: {{cluster: lab, user: {who}}}\n"
    ))
}

/// Writes a file that only root can read.
pub fn write_secret(file: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    let mut out = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("cannot write {}", file.display()))?;
    out.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))
}
