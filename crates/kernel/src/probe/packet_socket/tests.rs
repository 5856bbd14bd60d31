use super::*;

#[test]
fn the_kernel_never_reads_beyond_the_address_of_a_socket() {
    for length in [0, 6, 8, 20, 21, 32, 33, 200] {
        let sockaddr = LinkLayerSockAddr::new(7, ETH_P_ARP, &vec![0xff; length]);
        assert!(sockaddr.size() <= size_of_val(&sockaddr), "{length}");
        assert!(sockaddr.size() >= 12 + length.min(MAX_ADDR_LEN), "{length}");
        assert_eq!(usize::from(sockaddr.length), length.min(MAX_ADDR_LEN));
    }
    assert_eq!(LinkLayerSockAddr::new(7, ETH_P_ARP, &[0; 20]).size(), 32, "InfiniBand");
}
