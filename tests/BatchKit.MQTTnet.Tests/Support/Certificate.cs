using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>Makes certificates of a test's own.</summary>
internal static class Certificate
{
    public static X509Certificate2 Make()
    {
        using var key = RSA.Create(2048);
        var request = new CertificateRequest("CN=localhost", key, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1);
        return request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(1));
    }
}
