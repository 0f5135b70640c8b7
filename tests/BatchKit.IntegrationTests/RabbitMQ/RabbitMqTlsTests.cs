using System.Security.Cryptography.X509Certificates;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.RabbitMQ;

public sealed class RabbitMqTlsTests
{
    [Fact]
    public async Task A_self_signed_broker_is_refused_unless_a_check_of_the_users_own_accepts_it()
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyNotInstalled);
        using var certificate = TestAuthority.MakeSelfSigned();
        await using var server = await RabbitMqServer.StartOwnAsync(new RabbitMqServerOptions { Certificate = certificate });
        var options = RabbitMqSome.Options(server, server.TlsPort, options => options.UseTls = true);
        await using var untrusting = new RabbitMqTransport(options);
        var thumbprint = certificate.Thumbprint;
        var checking = RabbitMqSome.Options(server, server.TlsPort, options =>
        {
            options.UseTls = true;
            options.ValidateServerCertificate = (_, shown, _, _) => shown is X509Certificate2 given && given.Thumbprint == thumbprint;
        });
        await using var trusting = new RabbitMqTransport(checking);

        var failure = await Assert.ThrowsAsync<IOException>(() => SendAsync(untrusting));
        await SendAsync(trusting);

        Assert.Contains("trusted", failure.Message, StringComparison.Ordinal);
    }

    private static async Task SendAsync(RabbitMqTransport transport) =>
        await transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "a") }, CancellationToken.None);
}
