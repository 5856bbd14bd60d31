{{/* The name of an image: registry or its override, repository, digest or tag. */}}
{{- define "ferroband.imageName" -}}
{{- $registry := .root.Values.global.imageRegistryOverride | default .image.registry | default .root.Values.image.registry -}}
{{- $name := ternary (printf "%s/%s" $registry .image.repository) .image.repository (ne $registry "") -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Arguments of both daemons: what tenants may do. */}}
{{- define "ferroband.tenantArguments" -}}
{{- $arguments := list (printf "--trusted-namespaces=%s" (join "," .Values.trustedNamespaces)) -}}
{{- $arguments = append $arguments (printf "--max-networks-per-pod=%d" (int .Values.maxNetworksPerPod)) -}}
{{- $arguments = append $arguments (printf "--unlisted-partitions=%s" .Values.partitions.unlisted) -}}
{{- toJson $arguments -}}
{{- end -}}

{{- define "ferroband.image" -}}
{{- include "ferroband.imageName" (dict "root" . "image" .Values.image) -}}
{{- end -}}

{{/* The image of the node daemon: the one with tools, if a value needs one of them. */}}
{{- define "ferroband.nodeImage" -}}
{{- $tools := or .Values.node.firmware .Values.node.subnetManager .Values.verify -}}
{{- include "ferroband.imageName" (dict "root" . "image" (ternary .Values.toolsImage .Values.image $tools)) -}}
{{- end -}}

{{- define "ferroband.nodeArguments" -}}
{{- $arguments := concat (list "node") (fromJsonArray (include "ferroband.tenantArguments" .)) -}}
{{- with .Values.networks -}}
{{- if .namespaceIsolation }}{{ $arguments = append $arguments "--namespace-isolation" }}{{ end -}}
{{- with .globalNamespaces }}{{ $arguments = append $arguments (printf "--global-namespaces=%s" (join "," .)) }}{{ end -}}
{{- if .forbidDefaultNetwork }}{{ $arguments = append $arguments "--forbid-default-network" }}{{ end -}}
{{- $arguments = append $arguments (printf "--network-plugins=%s" .plugins) -}}
{{- with .listedPlugins }}{{ $arguments = append $arguments (printf "--listed-plugins=%s" (join "," .)) }}{{ end -}}
{{- end -}}
{{- with .Values.log }}{{ $arguments = append $arguments (printf "--log=%s" .) }}{{ end -}}
{{- with .Values.node.aliases }}{{ $arguments = append $arguments (printf "--alias=%s" (join "," .)) }}{{ end -}}
{{- with .Values.node.metricsAddress }}{{ $arguments = append $arguments (printf "--metrics-address=%s" .) }}{{ end -}}
{{- with .Values.node.simulate }}{{ $arguments = append $arguments (printf "--simulate=%s" .) }}{{ end -}}
{{- with .Values.node.simulateUplink }}{{ $arguments = append $arguments (printf "--simulate-uplink=%s" .) }}{{ end -}}
{{- toJson (concat $arguments .Values.node.extraArguments) -}}
{{- end -}}

{{- define "ferroband.clusterArguments" -}}
{{- $arguments := list "cluster" (printf "--resource-prefix=%s" .Values.resourcePrefix) -}}
{{- $arguments = concat $arguments (fromJsonArray (include "ferroband.tenantArguments" .)) -}}
{{- $arguments = append $arguments (printf "--max-pkeys-per-namespace=%d" (int .Values.partitions.maxPKeysPerNamespace)) -}}
{{- with .Values.cluster.projections }}
{{- $limit := ternary (int .maxAddressesPerPool) 0 .enabled -}}
{{- $arguments = append $arguments (printf "--projection-limit=%d" $limit) -}}
{{- end -}}
{{- with .Values.log }}{{ $arguments = append $arguments (printf "--log=%s" .) }}{{ end -}}
{{- toJson (concat $arguments .Values.cluster.extraArguments) -}}
{{- end -}}

{{/* The Job of a hook: runs one ferroband command with the service account ferroband-NAME. */}}
{{- define "ferroband.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: ferroband-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: ferroband
    app.kubernetes.io/component: hook
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-weight: "1"
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 4
  activeDeadlineSeconds: 600
  template:
    metadata:
      labels:
        app.kubernetes.io/name: ferroband
        app.kubernetes.io/component: hook
    spec:
      serviceAccountName: ferroband-{{ .name }}
      restartPolicy: Never
      # It must run before the pod network exists and after it is removed.
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      nodeSelector: {{ toJson .root.Values.cluster.nodeSelector }}
      tolerations:
        - operator: Exists
      imagePullSecrets: {{ toJson .root.Values.image.pullSecrets }}
      containers:
        - name: hook
          image: {{ include "ferroband.image" .root | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          terminationMessagePolicy: FallbackToLogsOnError
          command: [/usr/bin/ferroband]
          args: {{ toJson .arguments }}
          env:
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
          securityContext:
            runAsNonRoot: true
            runAsUser: 65532
            readOnlyRootFilesystem: true
            allowPrivilegeEscalation: false
            capabilities:
              drop: [ALL]
            seccompProfile:
              type: RuntimeDefault
{{- end -}}

{{/* Labels and annotations of a hook's objects. */}}
{{- define "ferroband.hookMetadata" -}}
labels:
    app.kubernetes.io/name: ferroband
    app.kubernetes.io/component: hook
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-weight: "0"
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
