//! Profiles in YAML or JSON files.

use crate::{Error, Profile, files};
use std::path::Path;

impl Profile {
    /// Reads and validates a profile file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| files::file_error("read", path, source))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Parses and validates a profile in YAML or JSON. Error messages name `file` as the origin of the text.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut field = String::new();
        let read = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
            serde_path_to_error::deserialize(deserializer).map_err(|error| {
                field = error.path().to_string();
                error.into_inner()
            })
        });
        let profile: Self = read.map_err(|source| Error::InvalidDescription {
            file: file.to_owned(),
            field,
            source: Box::new(source),
        })?;
        profile.validate()?;
        Ok(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    const TWO: &str = r#"
name: two-ports
netnsMode: exclusive
hcas:
  - pci: "0000:3b:00.0"
    vendor: 15b3
    device: 1017
    driver: mlx5_core
    totalVfs: 4
    rdma: mlx5_0
    model: MT4119
    board: MT_0000000008
    firmware: 16.35.4030
    ports:
      - linkLayer: InfiniBand
        state: active
        rate: 100 Gb/sec (4X EDR)
        netdev: {name: ibs1}
      - linkLayer: InfiniBand
        state: down
        rate: 10 Gb/sec (4X SDR)
gpus:
  - {pci: "0000:3c:00.0", device: 20b2, numa: 0}
"#;

    #[test]
    fn yaml_profile_is_parsed() {
        let profile = Profile::parse("two.yaml", TWO).unwrap();
        assert_eq!((profile.hcas[0].device.0, profile.hcas[0].vf_offset), (0x1017, 2));
        assert_eq!(
            (profile.gpus[0].device.0, profile.netns_mode.to_string().as_str()),
            (0x20b2, "exclusive")
        );
        assert_eq!(profile.hcas[0].ports.len(), 2);
    }

    #[test]
    fn json_profile_is_parsed() {
        for profile in Profile::builtins() {
            let text = serde_json::to_string_pretty(&profile).unwrap();
            assert_eq!(Profile::parse("same.json", &text).unwrap(), profile);
        }
    }

    #[test]
    fn error_contains_file_and_field() {
        for (right, wrong, at, why) in [
            ("totalVfs: 4", "totalVfs: many", "hcas[0].totalVfs", "many"),
            ("state: down", "state: broken", "hcas[0].ports[1].state", "broken"),
            ("firmware: 16", "fermware: 16", "hcas[0].fermware", "fermware"),
            ("netnsMode: exclusive", "netnsMode: mine", "netnsMode", "mine"),
            ("device: 20b2", "device: zz", "gpus[0].device", "digit"),
            ("pci: \"0000:3b:00.0\"", "pci: 3b:00.0", "hcas[0].pci", "3b:00.0"),
        ] {
            assert!(TWO.contains(right), "{right}");
            let error = Profile::parse("two.yaml", &TWO.replacen(right, wrong, 1)).unwrap_err();
            let source = error.source().map(ToString::to_string).unwrap_or_default();
            let Error::InvalidDescription { file, field, .. } = &error else { panic!("{error:?}") };
            assert_eq!((file.as_str(), field.as_str()), ("two.yaml", at), "{wrong}: {source}");
            assert!(source.contains(why), "{source}");
            assert!(error.fault().to_string().contains(at), "{}", error.fault());
        }
        let error = Profile::parse("two.yaml", "hcas: [").unwrap_err();
        assert!(matches!(error, Error::InvalidDescription { .. }), "{error:?}");
    }

    #[test]
    fn parsed_profile_is_validated() {
        let twice = TWO.replace("0000:3c:00.0", "0000:3b:00.2");
        assert!(matches!(
            Profile::parse("two.yaml", &twice),
            Err(Error::InvalidProfile { field: "pci", .. })
        ));
        assert!(matches!(Profile::read(Path::new("/nonexistent.yaml")), Err(Error::File { .. })));
    }
}
