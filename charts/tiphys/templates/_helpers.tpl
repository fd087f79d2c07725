{{/* Labels of every object. */}}
{{- define "tiphys.labels" -}}
app.kubernetes.io/name: tiphys
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Labels by which a workload finds its own pods: (list . ROLE). */}}
{{- define "tiphys.selector" -}}
app.kubernetes.io/name: tiphys
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Namespaces whose pods are never steered: our own and the cluster's. */}}
{{- define "tiphys.excluded" -}}
{{- concat (list "kube-system" "kube-public" "kube-node-lease" .Release.Namespace .Values.releaser.namespace) .Values.steering.excludedNamespaces | uniq | toJson }}
{{- end }}

{{/* Who stamps pods: a version of MutatingAdmissionPolicy, or "" where a namespace selector does. */}}
{{- define "tiphys.policyVersion" -}}
{{- $group := "admissionregistration.k8s.io" }}
{{- $versions := list (printf "%s/v1" $group) (printf "%s/v1beta1" $group) }}
{{- $found := "" }}
{{- range $versions }}
{{- if and (not $found) ($.Capabilities.APIVersions.Has (printf "%s/MutatingAdmissionPolicy" .)) }}
{{- $found = . }}
{{- end }}
{{- end }}
{{- if eq .Values.steering.by "selector" }}
{{- else if eq .Values.steering.by "policy" }}
{{- default (first $versions) $found }}
{{- else }}
{{- $found }}
{{- end }}
{{- end }}

{{/* `policy` or `selector`: how a pod of an opted-in namespace reaches the webhook. */}}
{{- define "tiphys.steeringBy" -}}
{{- if include "tiphys.policyVersion" . }}policy{{ else }}selector{{ end }}
{{- end }}

{{/* Not empty where the API server shows a client certificate. Where it cannot, what stands in for it
has to be whole, or nothing is installed. */}}
{{- define "tiphys.certified" -}}
{{- if eq .Values.webhook.clientCertificates "required" }}true{{ else }}
{{- $network := .Values.networkPolicy }}
{{- if .Values.webhook.clientCA }}
{{- fail "webhook.clientCA is given, but webhook.clientCertificates is none, so nobody would be asked for a certificate: leave one of them out" }}
{{- end }}
{{- if not (concat $network.apiServerCIDRs $network.apiServerFrom) }}
{{- fail "webhook.clientCertificates is none, so the network has to keep strangers from the webhook: say in networkPolicy.apiServerCIDRs from where the API servers call, or in networkPolicy.apiServerFrom through which pods (docs/install.md)" }}
{{- end }}
{{- range $network.apiServerCIDRs }}
{{- if hasSuffix "/0" . }}
{{- fail (printf "networkPolicy.apiServerCIDRs: %s is everybody; without client certificates name the API servers alone" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Image of a role: (list . ROLE). */}}
{{- define "tiphys.image" -}}
{{- $root := index . 0 }}
{{- $image := $root.Values.image }}
{{- printf "%s/tiphys-%s%s" (trimSuffix "/" $image.registry) (index . 1) (ternary (printf "@%s" (get $image.digests (index . 1))) (printf ":%s" (default $root.Chart.AppVersion $image.tag)) (hasKey $image.digests (index . 1))) }}
{{- end }}

{{/* User name of one of our ServiceAccounts: (list . ROLE). */}}
{{- define "tiphys.user" -}}
{{- $root := index . 0 }}
{{- $space := ternary $root.Values.releaser.namespace $root.Release.Namespace (eq (index . 1) "releaser") }}
{{- printf "system:serviceaccount:%s:tiphys-%s" $space (index . 1) }}
{{- end }}

{{/* securityContext of every container. */}}
{{- define "tiphys.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* securityContext of every pod. */}}
{{- define "tiphys.unprivileged" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Secrets and ConfigMaps that the leader makes and renews. */}}
{{- define "tiphys.secrets" -}}
- tiphys-keys
- tiphys-webhook-keys
- tiphys-ca
- tiphys-operator-tls
- tiphys-webhook-tls
{{- end }}
{{- define "tiphys.configMaps" -}}
- tiphys-public-keys
{{- end }}
