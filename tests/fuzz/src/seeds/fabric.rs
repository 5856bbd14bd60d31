//! Answers and files of subnet managers.

use super::to_bytes;

pub fn ufm_answers() -> Vec<Vec<u8>> {
    to_bytes(&[
        r#"{"0x7fff":{"membership":"full","partition":"management"},"0x3e8":{"guids":[{"guid":"0200000000000001","membership":"full","index0":true},{"guid":"0x02000000000000ac","membership":"limited"}],"ip_over_ib":true,"partition":"api_pkey_0x3e8"}}"#,
        r#"{"0x1":{"guids":[]},"0xffff":{},"zz":{"guids":{}},"32768":{"guids":[{"guid":7}]}}"#,
        r#"{"m_key":"0x0","sm_key":1,"sa_key":"0x77","m_key_per_port":false}"#,
    ])
}

pub fn partitions_files() -> Vec<Vec<u8>> {
    to_bytes(&[
        "Default=0x7fff,ipoib,defmember=full: ALL, SELF=full;\n",
        "# storage\nDefault=0x7fff: ALL=limited, ALL_SWITCHES=full, SELF=full;\nstorage=0x10,ipoib,mtu=5,rate=3,sl=0,scope=2:\n 0x0002c90300a1b2c3=full, 0x0002c90300a1b2c4 ;\n",
        "a=0x20,indx0,defmember=both:\n 0x0002c90300a1b2c3;\nb=021: NONE;\n",
        "Default=0x7fff: ALL, SELF=full;\n# ---- Ferroband writes from here; changes are lost ----\nfb03e8=0x03e8,indx0,ipoib,defmember=full:\n 0x0200000000000001=full;\n# ---- Ferroband writes to here ----\n",
    ])
}
