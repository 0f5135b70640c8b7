using System.Security.Cryptography.X509Certificates;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.IntegrationTests.MassTransit;

[Trait("Lane", "slow: one rule for each way to connect")]
public sealed class TlsTests(OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    [Fact]
    public async Task A_self_signed_broker_is_refused_unless_a_check_of_the_users_own_accepts_it()
    {
        var server = await own.GetAsync();
        using var certificate = TestAuthority.MakeSelfSigned();
        var port = await server.ListenForTlsAsync(certificate);
        var prefix = Some.Name("mt");
        var thumbprint = certificate.Thumbprint;
        await using var untrusting = await MassTransitNode.StartAsync(1, MassTransitSome.Settings(server, prefix, port, options => options.RabbitMq!.UseTls = true));
        await using var trusting = await MassTransitNode.StartReadyAsync(2, MassTransitSome.Settings(server, prefix, port, options =>
        {
            options.RabbitMq!.UseTls = true;
            options.RabbitMq.ValidateServerCertificate = (_, shown, _, _) => shown is X509Certificate2 given && given.Thumbprint == thumbprint;
        }));
        var handle = Some.Connection(2);

        trusting.Output.Write(handle, Some.Bytes("in secret"));
        var failure = await Assert.ThrowsAnyAsync<Exception>(() =>
            untrusting.Transport.SendAsync(new[] { Some.Batch(handle, Some.Producer(), 1, "never") }, CancellationToken.None).WithinDeadline());

        await trusting.Received.WaitForMessagesAsync(1);
        Assert.Equal(["in secret"], trusting.Received.Texts);
        Assert.IsNotType<TimeoutException>(failure);
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
        await using var node = await MassTransitNode.StartAsync(1, MassTransitSome.Settings(server, Some.Name("mt"), port, options =>
            (options.RabbitMq!.UseTls, options.RabbitMq.ValidateServerCertificate) = (true, authority.Trusts)));

        await Assert.ThrowsAnyAsync<Exception>(() =>
            node.Transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "never") }, CancellationToken.None).WithinDeadline());

        Assert.NotEqual(HealthStatus.Healthy, (await node.CheckHealthAsync()).Status);
    }
}
