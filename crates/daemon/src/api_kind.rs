//! Kinds of API objects that the daemons watch and write.

use kube::Resource;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// A kind that is known at compile time.
pub trait ApiKind: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static> ApiKind for K {}
