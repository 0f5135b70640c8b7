using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using BatchKit.Benchmarks.Configuration;

namespace BatchKit.Benchmarks.RawMqtt;

/// <summary>Whether a broker's certificate is trusted: by the system's authorities, or by the one that <c>run mqtt</c> was given.</summary>
internal static class BrokerCertificate
{
    private static readonly X509Certificate2? Authority = RunSettings.AuthorityFile is { } file ? X509CertificateLoader.LoadCertificateFromFile(file) : null;

    public static bool IsTrusted(X509Certificate? certificate, SslPolicyErrors errors)
    {
        if (Authority is null || errors == SslPolicyErrors.None)
            return errors == SslPolicyErrors.None;
        if (certificate is null || errors != SslPolicyErrors.RemoteCertificateChainErrors)
            return false;
        using var chain = new X509Chain { ChainPolicy = { TrustMode = X509ChainTrustMode.CustomRootTrust, RevocationMode = X509RevocationMode.NoCheck } };
        chain.ChainPolicy.CustomTrustStore.Add(Authority);
        using var whole = new X509Certificate2(certificate);
        return chain.Build(whole);
    }
}
