//! Seeds of the mutations.

/// Configurations of every Ferroband plugin.
pub const CONFIGURATIONS: [&str; 6] = [
    r#"{"cniVersion":"1.1.0","name":"n","type":"ipoib","master":"ib0","mtu":2044,"ipam":{"type":"whereabouts","range":"192.168.0.0/24"},"dns":{"nameservers":["10.0.0.1"]}}"#,
    r#"{"cniVersion":"0.3.1","name":"ib","type":"ib-sriov","deviceID":"0000:86:00.2","link_state":"enable","rdmaIsolation":true,"ibKubernetesEnabled":true,"runtimeConfig":{"infinibandGUID":"01:23:45:67:89:ab:cd:ef"},"args":{"cni":{"mellanox.infiniband.app":"configured","guid":"02:00:00:00:00:00:00:02"}}}"#,
    r#"{"cniVersion":"1.0.0","name":"c","type":"rdma","deviceID":"mlx5_core.sf.6","prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"net1","mac":"00:11:22:33:44:55","sandbox":"/x"}],"ips":[{"interface":0,"address":"10.0.0.2/24","gateway":"10.0.0.1"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1","mtu":1400,"priority":5,"table":100,"scope":0}]}}"#,
    r#"{"cniVersion":"1.1.0","name":"c","type":"coordinator","mode":"auto","overlayPodCIDR":["10.244.0.0/16"],"serviceCIDR":["10.96.0.0/12","fd00::/108"],"hijackCIDR":["169.254.0.0/16"],"policyRoutes":[{"dst":"10.1.0.0/16","gw":"10.9.0.1"}],"podRPFilter":0,"hostRuleTable":500,"vethMTU":1500}"#,
    r#"{"cniVersion":"0.2.0","name":"old","type":"ipoib","master":"ib0","prevResult":{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24","gateway":"10.0.0.1","routes":[{"dst":"0.0.0.0/0"}]}}}"#,
    r#"{"cniVersion":"1.1.0","name":"k8s","type":"ferroband","capabilities":{"portMappings":true},"delegates":[{"cniVersion":"1.0.0","name":"k8s","plugins":[{"type":"bridge"}]}],"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}"#,
];

/// Annotations in both spellings.
pub const ANNOTATIONS: [&str; 5] = [
    "a, ns2/b@ib1 ,c",
    "jarvice-ipoib",
    r#"[{"name":"a","namespace":"n","interface":"ib0","ips":["10.0.0.1/24","fd00::1"],"mac":"02:00:00:00:00:01","infiniband-guid":"c2:11:22:33:44:55:66:77"}]"#,
    r#"[{"name":"a","default-route":["10.0.0.1"],"portMappings":[{"hostPort":80,"containerPort":8080,"protocol":"tcp"}],"bandwidth":{"ingressRate":1},"cni-args":{"k":[1,{"x":null}]},"deviceID":"d"}]"#,
    r#"[{"name":"a","ipam-claim-reference":"c"},{"name":"b","interfaceRequest":"net7"}]"#,
];

/// Payloads of route and RDMA netlink messages: fixed headers followed by attributes, some of them nested.
pub fn netlink_messages() -> Vec<Vec<u8>> {
    let attribute = |kind: u16, value: &[u8]| {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let number = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
    let ipoib = [attribute(1, &0xffff_u16.to_ne_bytes()), attribute(2, &0_u16.to_ne_bytes())].concat();
    let info = [attribute(1, b"ipoib\0"), attribute(2, &ipoib)].concat();
    let vf =
        [number(5, 0), attribute(10, &[7; 16]), attribute(11, &[9; 16]), attribute(1, &[1; 36])].concat();
    let link = [
        vec![0; 16],
        attribute(3, b"ibs5f0\0"),
        number(4, 2044),
        attribute(1, &[0xfe; 20]),
        attribute(18, &info),
        attribute(23, &[1; 200]),
        attribute(52, &attribute(53, b"ib0\0")),
        number(21, 1),
        attribute(22, &attribute(1, &vf)),
    ]
    .concat();
    let hop = [
        16_u16.to_ne_bytes().to_vec(),
        vec![0, 0],
        3_u32.to_ne_bytes().to_vec(),
        attribute(5, &[10, 0, 0, 1]),
    ]
    .concat();
    let route = [
        vec![2, 16, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0],
        attribute(1, &[10, 1, 0, 0]),
        number(4, 3),
        attribute(5, &[10, 0, 0, 1]),
        attribute(8, &number(2, 1400)),
        attribute(9, &hop),
        number(15, 254),
    ]
    .concat();
    let rule = [
        vec![2, 0, 32, 0, 100, 0, 0, 1, 0, 0, 0, 0],
        attribute(2, &[10, 0, 0, 7]),
        number(6, 1000),
        number(15, 500),
    ]
    .concat();
    let address =
        [vec![2, 24, 0, 0, 3, 0, 0, 0], attribute(1, &[10, 0, 0, 7]), attribute(2, &[10, 0, 0, 7])].concat();
    let rdma =
        [number(1, 4), attribute(2, b"mlx5_4\0"), number(3, 1), attribute(6, &[3; 8]), attribute(66, &[1])]
            .concat();
    vec![link, route, rule, address, rdma]
}
