{{/* What the pods of all workloads share. */}}

{{/* Labels of a pod: (list . ROLE). */}}
{{- define "tiphys.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "tiphys.labels" $root }}
app.kubernetes.io/component: {{ index . 1 }}
{{- with $root.Values.pods.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Annotations of a pod: (list . SETTINGS); new settings roll the pods. */}}
{{- define "tiphys.podAnnotations" -}}
{{- $root := index . 0 -}}
tiphys.dev/settings-sha256: {{ include (printf "tiphys.%s" (index . 1)) $root | sha256sum | trunc 16 }}
{{- with $root.Values.pods.annotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where a pod may run: (list . ROLE); two replicas prefer two hosts. */}}
{{- define "tiphys.podPlacement" -}}
{{- $root := index . 0 -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "tiphys.selector" . | nindent 8 }}
{{- with $root.Values.pods.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.pods.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.pods.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Environment of every container. */}}
{{- define "tiphys.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- if .Values.disabled }}
- {name: TIPHYS_DISABLED, value: "1"}
{{- end }}
{{- with .Values.pods.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Probes of a long-running container; its port is called metrics. */}}
{{- define "tiphys.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 2
  timeoutSeconds: 2
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 4
{{- end }}

{{/* Pod of the releaser: (list . MODE), MODE `--watch` or `--once`. */}}
{{- define "tiphys.releaserPod" -}}
{{- $root := index . 0 -}}
{{- $watches := eq (index . 1) "--watch" -}}
serviceAccountName: tiphys-releaser
priorityClassName: tiphys-releaser
{{ include "tiphys.podPlacement" (list $root (ternary "releaser" "floor" $watches)) }}
securityContext:
  {{- include "tiphys.unprivileged" $root | nindent 2 }}
terminationGracePeriodSeconds: 10
containers:
  - name: releaser
    image: {{ include "tiphys.image" (list $root "releaser") }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [tiphys, release, {{ index . 1 }}, --settings, /etc/tiphys/releaser.yaml]
    env:
      {{- include "tiphys.env" $root | nindent 6 }}
    {{- if $watches }}
    ports:
      - {name: metrics, containerPort: {{ $root.Values.releaser.metricsPort }}}
    {{- include "tiphys.probes" $root | nindent 4 }}
    {{- end }}
    resources:
      {{- toYaml $root.Values.releaser.resources | nindent 6 }}
    securityContext:
      {{- include "tiphys.confined" $root | nindent 6 }}
    volumeMounts:
      - {name: settings, mountPath: /etc/tiphys, readOnly: true}
volumes:
  - name: settings
    configMap: {name: tiphys-releaser}
{{- end }}
