package podspec

import (
	"path"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	minTokenSeconds int64 = 10 * 60
	maxTokenSeconds int64 = 1 << 32
	maxCSIDriver          = 63
)

func (c *checker) volumes(p *field.Path) {
	vols := c.pod.Spec.Volumes
	if len(vols) == 0 {
		return
	}
	c.volume = make(map[string]*corev1.Volume, len(vols))
	for i := range vols {
		v, vp := &vols[i], p.Index(i)
		c.name(vp, "name", v.Name, validation.IsDNS1123Label)
		if c.volume[v.Name] != nil {
			c.add(field.Duplicate(vp.Child("name"), shorten(v.Name)))
		}
		c.volume[v.Name] = v
		c.exactlyOne(vp, "volume source", &v.VolumeSource)
		c.volumeSource(vp, &v.VolumeSource)
	}
}

// exactlyOne checks a struct of pointers, of which the API wants one to be set.
func (c *checker) exactlyOne(p *field.Path, what string, oneof any) {
	v := reflect.ValueOf(oneof).Elem()
	set := 0
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			set++
		}
	}
	switch {
	case set == 0:
		c.required(p, "", "must have a "+what)
	case set > 1:
		c.forbidden(p, "", "must not have more than one "+what)
	}
}

// volumeSource checks the kinds that the node itself mounts and the names that
// the others hand to their drivers.
func (c *checker) volumeSource(p *field.Path, s *corev1.VolumeSource) {
	if s.HostPath != nil {
		c.hostPath(p.Child("hostPath"), s.HostPath)
	}
	if s.EmptyDir != nil {
		c.emptyDir(p.Child("emptyDir"), s.EmptyDir)
	}
	if v := s.ConfigMap; v != nil {
		c.keyVolume(p.Child("configMap"), "name", v.Name, v.DefaultMode, v.Items)
	}
	if v := s.Secret; v != nil {
		c.keyVolume(p.Child("secret"), "secretName", v.SecretName, v.DefaultMode, v.Items)
	}
	if v := s.DownwardAPI; v != nil {
		c.mode(p.Child("downwardAPI"), "defaultMode", v.DefaultMode, 0o777)
		c.downward(p.Child("downwardAPI", "items"), v.Items)
	}
	if s.Projected != nil {
		c.projected(p.Child("projected"), s.Projected)
	}
	if v := s.PersistentVolumeClaim; v != nil {
		c.name(p.Child("persistentVolumeClaim"), "claimName", v.ClaimName, validation.IsDNS1123Subdomain)
	}
	if v := s.Ephemeral; v != nil && v.VolumeClaimTemplate == nil {
		c.required(p.Child("ephemeral"), "volumeClaimTemplate", "")
	}
	if v := s.Image; v != nil {
		c.image(p.Child("image"), "reference", v.Reference)
		c.pullPolicy(p.Child("image"), "pullPolicy", v.PullPolicy)
	}
	c.driverVolume(p, s)
}

// driverVolume checks volumes that another program mounts.
func (c *checker) driverVolume(p *field.Path, s *corev1.VolumeSource) {
	if v := s.CSI; v != nil {
		c.name(p.Child("csi"), "driver", strings.ToLower(v.Driver), validation.IsDNS1123Subdomain)
		if len(v.Driver) > maxCSIDriver {
			c.add(field.TooLong(p.Child("csi", "driver"), "", maxCSIDriver))
		}
		if r := v.NodePublishSecretRef; r != nil {
			c.name(p.Child("csi", "nodePublishSecretRef"), "name", r.Name, validation.IsDNS1123Subdomain)
		}
	}
	if v := s.FlexVolume; v != nil {
		c.name(p.Child("flexVolume"), "driver", v.Driver, validation.IsQualifiedName)
	}
	if v := s.NFS; v != nil {
		c.name(p.Child("nfs"), "server", v.Server, oneWord)
		if !strings.HasPrefix(v.Path, "/") {
			c.invalid(p.Child("nfs"), "path", v.Path, "must be an absolute path")
		}
	}
}

func (c *checker) hostPath(p *field.Path, v *corev1.HostPathVolumeSource) {
	switch {
	case v.Path == "":
		c.required(p, "path", "")
	case !strings.HasPrefix(v.Path, "/"):
		c.invalid(p, "path", v.Path, "must be an absolute path")
	default:
		c.noDotDot(p, "path", v.Path)
	}
	if v.Type != nil {
		oneOf(c, p, "type", *v.Type, corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory, corev1.HostPathFileOrCreate,
			corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)
	}
}

func (c *checker) emptyDir(p *field.Path, v *corev1.EmptyDirVolumeSource) {
	switch {
	case v.Medium == corev1.StorageMediumDefault, v.Medium == corev1.StorageMediumMemory, v.Medium == corev1.StorageMediumHugePages:
	case strings.HasPrefix(string(v.Medium), string(corev1.StorageMediumHugePagesPrefix)):
		size := strings.TrimPrefix(string(v.Medium), string(corev1.StorageMediumHugePagesPrefix))
		if err := positiveQuantity(size); err != "" {
			c.invalid(p, "medium", string(v.Medium), "page size: %s", err)
		}
	default:
		oneOf(c, p, "medium", v.Medium, corev1.StorageMediumDefault, corev1.StorageMediumMemory, corev1.StorageMediumHugePages, "HugePages-<size>")
	}
	if v.SizeLimit != nil && v.SizeLimit.Sign() < 0 {
		c.invalid(p, "sizeLimit", v.SizeLimit.String(), "must not be negative")
	}
	c.mode(p, "mode", v.Mode, 0o1777)
}

func (c *checker) keyVolume(p *field.Path, nameField, name string, mode *int32, items []corev1.KeyToPath) {
	c.name(p, nameField, name, validation.IsDNS1123Subdomain)
	c.mode(p, "defaultMode", mode, 0o777)
	c.keyItems(p.Child("items"), items)
}

func (c *checker) keyItems(p *field.Path, items []corev1.KeyToPath) {
	for i := range items {
		ip := p.Index(i)
		c.name(ip, "key", items[i].Key, validation.IsConfigMapKey)
		c.volumeFile(ip, "path", items[i].Path)
		c.mode(ip, "mode", items[i].Mode, 0o777)
	}
}

func (c *checker) downward(p *field.Path, items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		d, ip := &items[i], p.Index(i)
		c.volumeFile(ip, "path", d.Path)
		c.mode(ip, "mode", d.Mode, 0o777)
		switch {
		case d.FieldRef != nil && d.ResourceFieldRef != nil:
			c.forbidden(ip, "", "must not have both fieldRef and resourceFieldRef")
		case d.FieldRef != nil:
			c.fieldRef(ip.Child("fieldRef"), d.FieldRef, volumeFields())
		case d.ResourceFieldRef != nil:
			c.resourceRef(ip.Child("resourceFieldRef"), d.ResourceFieldRef, true)
		default:
			c.required(ip, "", "must have a fieldRef or a resourceFieldRef")
		}
	}
}

func (c *checker) projected(p *field.Path, v *corev1.ProjectedVolumeSource) {
	c.mode(p, "defaultMode", v.DefaultMode, 0o777)
	var paths []string
	for i := range v.Sources {
		s, sp := &v.Sources[i], p.Child("sources").Index(i)
		c.exactlyOne(sp, "source", s)
		c.projection(sp, s)
		for _, f := range projectedFiles(s) {
			if f != "" {
				paths = append(paths, path.Clean(f))
			}
		}
	}
	c.pathConflicts(p, paths)
}

// pathConflicts finds what cannot be written into one volume: two files with
// one path, which would overwrite each other, and a file that is also a directory.
func (c *checker) pathConflicts(p *field.Path, paths []string) {
	files := make(map[string]bool, len(paths))
	for _, f := range paths {
		c.unique(p, "sources", f, files)
	}
	for _, f := range paths {
		for d := path.Dir(f); d != "." && d != "/"; d = path.Dir(d) {
			if files[d] {
				c.invalid(p, "sources", f, "conflicts with the file %q of another item", shorten(d))
			}
		}
	}
}

func (c *checker) projection(p *field.Path, s *corev1.VolumeProjection) {
	if v := s.ConfigMap; v != nil {
		c.keyVolume(p.Child("configMap"), "name", v.Name, nil, v.Items)
	}
	if v := s.Secret; v != nil {
		c.keyVolume(p.Child("secret"), "name", v.Name, nil, v.Items)
	}
	if v := s.DownwardAPI; v != nil {
		c.downward(p.Child("downwardAPI", "items"), v.Items)
	}
	if v := s.ServiceAccountToken; v != nil {
		tp := p.Child("serviceAccountToken")
		c.volumeFile(tp, "path", v.Path)
		if v.ExpirationSeconds != nil {
			inRange(c, tp, "expirationSeconds", *v.ExpirationSeconds, minTokenSeconds, maxTokenSeconds)
		}
	}
	if v := s.ClusterTrustBundle; v != nil {
		c.volumeFile(p.Child("clusterTrustBundle"), "path", v.Path)
		if (v.Name == nil) == (v.SignerName == nil) {
			c.invalid(p, "clusterTrustBundle", v.Path, "must have exactly one of name and signerName")
		}
	}
	if v := s.PodCertificate; v != nil {
		cp := p.Child("podCertificate")
		if v.CredentialBundlePath == "" && v.KeyPath == "" && v.CertificateChainPath == "" {
			c.required(cp, "credentialBundlePath", "or keyPath or certificateChainPath")
		}
		for _, f := range [][2]string{{"credentialBundlePath", v.CredentialBundlePath}, {"keyPath", v.KeyPath}, {"certificateChainPath", v.CertificateChainPath}} {
			if f[1] != "" {
				c.volumeFile(cp, f[0], f[1])
			}
		}
	}
}

// projectedFiles lists the paths that a source of a projected volume names. Keys
// that become files by their own name are known only when the object is read.
func projectedFiles(s *corev1.VolumeProjection) (paths []string) {
	items := func(list []corev1.KeyToPath) {
		for i := range list {
			paths = append(paths, list[i].Path)
		}
	}
	if s.ConfigMap != nil {
		items(s.ConfigMap.Items)
	}
	if s.Secret != nil {
		items(s.Secret.Items)
	}
	if s.DownwardAPI != nil {
		for i := range s.DownwardAPI.Items {
			paths = append(paths, s.DownwardAPI.Items[i].Path)
		}
	}
	if s.ServiceAccountToken != nil {
		paths = append(paths, s.ServiceAccountToken.Path)
	}
	if s.ClusterTrustBundle != nil {
		paths = append(paths, s.ClusterTrustBundle.Path)
	}
	if v := s.PodCertificate; v != nil {
		paths = append(paths, v.CredentialBundlePath, v.KeyPath, v.CertificateChainPath)
	}
	return paths
}
