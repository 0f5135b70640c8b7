using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;

namespace BatchKit.IntegrationTests.Mqtt;

public sealed class MqttCredentialsTests
{
    private const string Secret = "s3cr3t-of-this-test";
    private const int Connected = 220;

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_wrong_password_is_refused_with_the_reason_and_is_written_nowhere(MqttVersion version)
    {
        await using var server = await StartAsync();
        await using var client = new MqttAccess("mqtt", server.Port, version, static options => (options.UserName, options.Password) = ("somebody", Secret));

        var failure = await client.RefuseAsync();

        Assert.Equal(
            $"The broker at mqtt://127.0.0.1:{server.Port} refused the connection: NotAuthorized (0x87). Check UserName and Password, or CredentialsProvider.", failure.Message);
        Assert.DoesNotContain(Secret, $"{failure}{client.Log.Text}{client.Transport.Fault}", StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task The_right_password_is_let_in_and_is_written_nowhere(MqttVersion version)
    {
        await using var server = await StartAsync();
        await using var client = new MqttAccess("mqtt", server.Port, version, static options => (options.UserName, options.Password) = ("somebody", "right"));

        await client.PublishAsync();

        Assert.Null(client.Transport.Fault);
        Assert.DoesNotContain("right", client.Log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Nobody_is_refused_where_somebody_is_expected()
    {
        await using var server = await StartAsync();
        await using var client = new MqttAccess("mqtt", server.Port);

        var failure = await client.RefuseAsync();

        Assert.Contains(nameof(MqttOptions.UserName), failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_token_is_asked_for_at_each_connect_and_is_written_nowhere()
    {
        await using var server = await StartAsync();
        var asked = 0;
        await using var client = new MqttAccess("mqtt", server.Port, configure: options =>
        {
            options.MaxReconnectDelay = options.ReconnectDelay = TimeSpan.FromMilliseconds(20);
            // The first has run out; the ones after it are good.
            options.CredentialsProvider = _ => ValueTask.FromResult(new MqttCredentials("somebody", Some.Bytes(Interlocked.Increment(ref asked) == 1 ? Secret : "right")));
        });

        var failure = await Assert.ThrowsAsync<MqttConnectException>(client.PublishAsync);
        await client.Log.WaitForAsync(Connected);
        await client.PublishAsync();
        var askedBefore = Volatile.Read(ref asked);
        await server.KillAsync();
        await server.StartAsync();
        await client.Log.WaitForAsync(Connected, count: 2);
        await client.PublishAsync();

        Assert.True(failure.IsRefusal);
        Assert.True(Volatile.Read(ref asked) > askedBefore);
        Assert.DoesNotContain(Secret, $"{failure}{client.Log.Text}", StringComparison.Ordinal);
    }

    private static async Task<MosquittoServer> StartAsync()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        return await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { UserName = "somebody", Password = "right" });
    }
}
