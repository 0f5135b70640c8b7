using System.Net;
using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>A certificate for localhost that only these tests trust.</summary>
internal static class Certificate
{
    public static X509Certificate2 Shared { get; } = Make();

    public static SslServerAuthenticationOptions ForServer => new() { ServerCertificate = Shared };

    /// <summary>Shakes hands with a server over a connected client.</summary>
    public static async Task<LineClient> SecureAsync(LineClient client)
    {
        var stream = new SslStream(client.Stream, leaveInnerStreamOpen: false, (_, certificate, _, _) => certificate?.GetCertHashString() == Shared.GetCertHashString());
        await stream.AuthenticateAsClientAsync("localhost");
        return new LineClient(stream, client.Socket);
    }

    private static X509Certificate2 Make()
    {
        using var key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var request = new CertificateRequest("CN=localhost", key, HashAlgorithmName.SHA256);
        var names = new SubjectAlternativeNameBuilder();
        names.AddDnsName("localhost");
        names.AddIpAddress(IPAddress.Loopback);
        request.CertificateExtensions.Add(names.Build());
        return request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(1));
    }
}
