//! Arbitrary input from a runtime, a plugin or a damaged disk yields a result or an error, never a panic.

use ferroband_attach::{
    CniCommand, CniEnvironment, CniResult, CniVersion, Error, Invocation, PluginConfig, args,
    plan::Attachment,
};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Any JSON, often with keys that the parsers know.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof!["\\PC*", "10\\.[0-9.]{1,9}/[0-9]{1,3}", "[01]\\.[0-9]\\.[0-9]", "[a-z]{1,16}"]
            .prop_map(Value::from),
    ];
    let key = prop_oneof![
        "(cniVersion|name|type|plugins|ipam|master|mtu|capabilities|runtimeConfig|prevResult|delegates|disableCheck)",
        "(interfaces|ips|routes|dns|address|gateway|dst|gw|interface|ip4|ip6|ip|sandbox|version)",
        "\\PC{0,8}",
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn parse_call(stdin: &[u8], value: &str) {
    for (name, command) in [
        ("ADD", CniCommand::Add),
        ("DEL", CniCommand::Del),
        ("CHECK", CniCommand::Check),
        ("GC", CniCommand::Gc),
    ] {
        let variables = CniEnvironment::from_iter([
            ("CNI_COMMAND", name),
            ("CNI_CONTAINERID", value),
            ("CNI_IFNAME", value),
            ("CNI_NETNS", value),
            ("CNI_ARGS", value),
            ("CNI_PATH", value),
        ]);
        if let Ok(call) = Invocation::read(command, &variables, &mut &*stdin) {
            assert!(call.config.name().is_ok() && CniVersion::ALL.contains(&call.version));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_on_stdin_do_not_panic(
        stdin in prop::collection::vec(any::<u8>(), 0..200),
        value in "\\PC{0,20}",
    ) {
        parse_call(&stdin, &value);
    }

    #[test]
    fn arbitrary_json_on_stdin_does_not_panic(config in json(), value in "[a-z0-9;=/.]{0,16}") {
        parse_call(config.to_string().as_bytes(), &value);
        let _ = args::parse_pod(&value);
        let parsed = PluginConfig::parse(config.to_string().into_bytes());
        let network = parsed.map_err(Error::from).and_then(|config| Attachment::foreign(config.map(), "net1", false));
        let steps = network.iter().flat_map(|network| network.steps.iter().map(move |step| (network, step)));
        for (network, step) in steps {
            let stdin = network.stdin(step, None);
            prop_assert!(serde_json::from_slice::<Map<String, Value>>(&stdin).is_ok());
        }
    }

    #[test]
    fn a_valid_result_can_be_written_and_read_back(result in json(), version in 0..7_usize) {
        let version = CniVersion::ALL[version];
        if let Ok(read) = CniResult::read(&result, version) {
            let written = read.write(CniVersion::NEWEST).unwrap();
            let again = CniResult::read(&written, CniVersion::NEWEST).unwrap();
            prop_assert!(again.ips == read.ips, "{written}");
            for version in CniVersion::ALL {
                let _ = read.print(version);
            }
        }
    }
}
