using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.Mosquitto;

namespace BatchKit.IntegrationTests.Mqtt;

[Trait("Lane", "slow: one rule for each way to connect")]
public sealed class MqttTlsTests : IDisposable
{
    // The alert for a version that is not supported (RFC 8446, section 6).
    private const byte ProtocolVersion = 70;

    private readonly TestAuthority _authority = new();

    public void Dispose() => _authority.Dispose();

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_certificate_for_the_host_from_a_trusted_authority_is_taken(MqttVersion version)
    {
        using var certificate = _authority.Issue("127.0.0.1");
        await using var server = await StartAsync(certificate);
        await using var client = new MqttAccess("mqtts", server.TlsPort, version, Trust);

        await client.PublishAsync();
    }

    [Theory]
    [InlineData("mqtts")]
    [InlineData("wss")]
    public async Task A_self_signed_certificate_is_refused(string scheme)
    {
        using var certificate = TestAuthority.MakeSelfSigned();
        await using var server = await StartAsync(certificate);
        await using var client = new MqttAccess(scheme, scheme == "wss" ? server.SecureWebSocketPort : server.TlsPort);

        Assert.Contains("is not trusted: its certificate is self-signed", (await client.RefuseAsync()).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_self_signed_certificate_is_taken_by_a_check_of_the_users_own()
    {
        using var certificate = TestAuthority.MakeSelfSigned();
        await using var server = await StartAsync(certificate);
        var thumbprint = certificate.Thumbprint;
        await using var client = new MqttAccess("mqtts", server.TlsPort, configure: options =>
            options.ValidateServerCertificate = (_, shown, _, _) => shown is X509Certificate2 given && given.Thumbprint == thumbprint);

        await client.PublishAsync();
    }

    [Fact]
    public async Task A_check_of_the_users_own_that_says_no_is_named()
    {
        using var certificate = _authority.Issue("127.0.0.1");
        await using var server = await StartAsync(certificate);
        await using var client = new MqttAccess("mqtts", server.TlsPort, configure: static options => options.ValidateServerCertificate = static (_, _, _, errors) => errors == SslPolicyErrors.None);

        Assert.Contains("comes from an issuer that this system does not trust", (await client.RefuseAsync()).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_check_of_the_users_own_that_throws_is_named_and_asked_again()
    {
        using var certificate = TestAuthority.MakeSelfSigned();
        await using var server = await StartAsync(certificate);
        var checks = 0;
        await using var client = new MqttAccess("mqtts", server.TlsPort, configure: options =>
            options.ValidateServerCertificate = (_, _, _, _) => ++checks > 2 ? true : throw new InvalidOperationException("secret"));

        await client.PublishAsync();

        Assert.Contains("ValidateServerCertificate failed with InvalidOperationException", client.Log.Text, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", client.Log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task An_expired_certificate_is_refused()
    {
        using var certificate = _authority.Issue("127.0.0.1", expired: true);
        await using var server = await StartAsync(certificate);
        await using var client = new MqttAccess("mqtts", server.TlsPort, configure: Trust);

        Assert.Contains("its certificate expired at ", (await client.RefuseAsync()).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_certificate_for_another_host_is_refused_unless_that_name_is_set()
    {
        using var certificate = _authority.Issue("broker.example");
        await using var server = await StartAsync(certificate);
        await using var client = new MqttAccess("mqtts", server.TlsPort, configure: Trust);
        await using var knowing = new MqttAccess("mqtts", server.TlsPort, configure: options =>
        {
            Trust(options);
            options.TlsServerName = "broker.example";
        });

        var failure = await client.RefuseAsync();
        await knowing.PublishAsync();

        Assert.Contains("is for another name than 127.0.0.1", failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("mqtts")]
    [InlineData("wss")]
    public async Task A_broker_that_speaks_only_TLS_1_1_is_refused(string scheme)
    {
        await using var server = OldTlsServer.Start();
        await using var client = new MqttAccess(scheme, server.Port, configure: Trust);

        var fault = await client.FailAsync();

        Assert.Equal(ProtocolVersion, await server.Refused.WithinDeadline());
        Assert.Contains("TLS", fault, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("mqtt")]
    [InlineData("ws")]
    public async Task Where_TLS_is_needed_a_plain_connection_fails_and_says_so(string scheme)
    {
        using var certificate = _authority.Issue("127.0.0.1");
        await using var server = await StartAsync(certificate);
        await using var client = new MqttAccess(scheme, scheme == "ws" ? server.SecureWebSocketPort : server.TlsPort);

        var fault = await client.FailAsync();

        Assert.Contains("TLS", fault, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("mqtts")]
    [InlineData("wss")]
    public async Task Where_there_is_no_TLS_it_is_not_done_without(string scheme)
    {
        using var certificate = _authority.Issue("127.0.0.1");
        await using var server = await StartAsync(certificate);
        await using var client = new MqttAccess(scheme, scheme == "wss" ? server.WebSocketPort : server.Port, configure: Trust);

        Assert.Contains("may speak no TLS on this port", await client.FailAsync(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_client_certificate_is_shown_to_a_broker_that_asks_for_one(MqttVersion version)
    {
        using var certificate = _authority.Issue("127.0.0.1");
        using var own = _authority.Issue("some-client");
        await using var server = await StartAsync(certificate, _authority.Certificate);
        await using var client = new MqttAccess("mqtts", server.TlsPort, version, options =>
        {
            Trust(options);
            options.ClientCertificates = [own];
        });

        await client.PublishAsync();
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_broker_that_asks_for_a_client_certificate_refuses_a_client_without(MqttVersion version)
    {
        using var certificate = _authority.Issue("127.0.0.1");
        await using var server = await StartAsync(certificate, _authority.Certificate);
        await using var client = new MqttAccess("mqtts", server.TlsPort, version, Trust);

        var fault = await client.FailAsync();

        Assert.Contains("client certificate (ClientCertificates)", fault, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_client_certificate_of_a_foreign_authority_is_refused()
    {
        using var foreign = new TestAuthority();
        using var certificate = _authority.Issue("127.0.0.1");
        using var own = foreign.Issue("some-client");
        await using var server = await StartAsync(certificate, _authority.Certificate);
        await using var client = new MqttAccess("mqtts", server.TlsPort, configure: options =>
        {
            Trust(options);
            options.ClientCertificates = [own];
        });

        Assert.Contains("client certificate (ClientCertificates)", await client.FailAsync(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_WebSocket_carries_it_with_and_without_TLS(MqttVersion version)
    {
        using var certificate = _authority.Issue("127.0.0.1");
        await using var server = await StartAsync(certificate);
        await using var plain = new MqttAccess("ws", server.WebSocketPort, version);
        await using var secure = new MqttAccess("wss", server.SecureWebSocketPort, version, Trust);

        await plain.PublishAsync();
        await secure.PublishAsync();
    }

    private static async Task<MosquittoServer> StartAsync(X509Certificate2 certificate, X509Certificate2? clientAuthority = null)
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        return await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Certificate = certificate, ClientAuthority = clientAuthority });
    }

    // Trusts the authority as a system would that knows it: name and time are still checked.
    private void Trust(MqttOptions options) => options.ValidateServerCertificate = _authority.Trusts;
}
