using System.Security.Cryptography.X509Certificates;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.RabbitMQ;

[Trait("Lane", "slow: one rule for each way to connect")]
public sealed class RabbitMqTlsTests(OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    [Fact]
    public async Task A_self_signed_broker_is_refused_unless_a_check_of_the_users_own_accepts_it()
    {
        var server = await own.GetAsync();
        using var certificate = TestAuthority.MakeSelfSigned();
        var port = await server.ListenForTlsAsync(certificate);
        var options = RabbitMqSome.Options(server, port, options => options.UseTls = true);
        await using var untrusting = new RabbitMqTransport(options);
        var thumbprint = certificate.Thumbprint;
        var checking = RabbitMqSome.Options(server, port, options =>
        {
            options.UseTls = true;
            options.ValidateServerCertificate = (_, shown, _, _) => shown is X509Certificate2 given && given.Thumbprint == thumbprint;
        });
        await using var trusting = new RabbitMqTransport(checking);

        var failure = await Assert.ThrowsAsync<IOException>(() => SendAsync(untrusting));
        await SendAsync(trusting);

        Assert.Contains("trusted", failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("for another host")]
    [InlineData("expired")]
    [InlineData("TLS 1.1")]
    public async Task A_broker_whose_certificate_or_protocol_is_not_good_is_refused(string fault)
    {
        using var authority = new TestAuthority();
        var server = await own.GetAsync();
        var port = await FaultyTls.ListenAsync(server, authority, fault);
        await using var transport = new RabbitMqTransport(RabbitMqSome.Options(server, port, options => (options.UseTls, options.ValidateServerCertificate) = (true, authority.Trusts)));
        await using var knowing = new RabbitMqTransport(RabbitMqSome.Options(server, port, options =>
            (options.UseTls, options.ValidateServerCertificate, options.TlsServerName) = (true, authority.Trusts, "broker.example")));

        await Assert.ThrowsAsync<IOException>(() => SendAsync(transport));

        if (fault == "for another host")
            await SendAsync(knowing);
        else
            await Assert.ThrowsAsync<IOException>(() => SendAsync(knowing));
    }

    private static async Task SendAsync(RabbitMqTransport transport) =>
        await transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "a") }, CancellationToken.None);
}

/// <summary>What a client with TLS must refuse.</summary>
internal static class FaultyTls
{
    /// <summary>Has a broker listen with a certificate that is "for another host" or "expired", or for "TLS 1.1" alone; returns the port.</summary>
    public static async Task<int> ListenAsync(RabbitMqServer server, TestAuthority authority, string fault)
    {
        using var certificate = authority.Issue(fault == "for another host" ? "broker.example" : "127.0.0.1", expired: fault == "expired");
        return await server.ListenForTlsAsync(certificate, fault == "TLS 1.1" ? "tlsv1.1" : null);
    }
}
