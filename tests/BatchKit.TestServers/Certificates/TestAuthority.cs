using System.Net;
using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace BatchKit.TestServers.Certificates;

/// <summary>Issues certificates that nobody trusts but who is told to. Dispose it, and what it issued.</summary>
public sealed class TestAuthority : IDisposable
{
    private static readonly DateTimeOffset Now = TimeProvider.System.GetUtcNow();

    private readonly RSA _key = RSA.Create(2048);

    /// <summary>Makes an authority, with a key of its own.</summary>
    public TestAuthority()
    {
        var request = NewRequest("CN=The tests' authority", _key);
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(certificateAuthority: true, hasPathLengthConstraint: false, pathLengthConstraint: 0, critical: true));
        request.CertificateExtensions.Add(new X509KeyUsageExtension(X509KeyUsageFlags.KeyCertSign | X509KeyUsageFlags.CrlSign, critical: true));
        Certificate = request.CreateSelfSigned(Now.AddDays(-30), Now.AddDays(30));
    }

    /// <summary>The authority's own certificate, which makes those that it issued trusted.</summary>
    public X509Certificate2 Certificate { get; }

    /// <summary>A certificate for 127.0.0.1 that signs itself.</summary>
    public static X509Certificate2 MakeSelfSigned()
    {
        using var key = RSA.Create(2048);
        return NewServerRequest("127.0.0.1", key).CreateSelfSigned(Now.AddDays(-1), Now.AddDays(30));
    }

    /// <summary>Issues a certificate with its private key, for a server's address or name or for a client.</summary>
    /// <param name="name">An address, or a name.</param>
    /// <param name="expired">True for one that was valid until yesterday.</param>
    public X509Certificate2 Issue(string name, bool expired = false)
    {
        using var key = RSA.Create(2048);
        var until = expired ? Now.AddDays(-1) : Now.AddDays(20);
        using var issued = NewServerRequest(name, key).Create(Certificate, Now.AddDays(-20), until, RandomNumberGenerator.GetBytes(8));
        return issued.CopyWithPrivateKey(key);
    }

    /// <summary>A check of a server's certificate that trusts this authority, and is otherwise as strict as the system's: a <see cref="RemoteCertificateValidationCallback"/>.</summary>
    public bool Trusts(object sender, X509Certificate? shown, X509Chain? chain, SslPolicyErrors errors)
    {
        if (shown is not X509Certificate2 certificate || chain is null || errors.HasFlag(SslPolicyErrors.RemoteCertificateNameMismatch))
            return false;
        chain.ChainPolicy.TrustMode = X509ChainTrustMode.CustomRootTrust;
        chain.ChainPolicy.CustomTrustStore.Add(Certificate);
        return chain.Build(certificate);
    }

    /// <inheritdoc/>
    public void Dispose()
    {
        Certificate.Dispose();
        _key.Dispose();
    }

    private static CertificateRequest NewRequest(string subject, RSA key) => new(subject, key, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1);

    private static CertificateRequest NewServerRequest(string name, RSA key)
    {
        var request = NewRequest($"CN={name}", key);
        var names = new SubjectAlternativeNameBuilder();
        if (IPAddress.TryParse(name, out var address))
            names.AddIpAddress(address);
        else
            names.AddDnsName(name);
        request.CertificateExtensions.Add(names.Build());
        return request;
    }
}
