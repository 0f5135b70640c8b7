using BatchKit.TestServers;
using BatchKit.TestServers.Mosquitto;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>The tests' own broker does what the tests of the transports rely on.</summary>
public sealed class MosquittoServerTests
{
    public MosquittoServerTests()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        RequiredServer.SkipWhen(MosquittoProgram.WhyMissing);
    }

    [Fact]
    public async Task A_stopped_broker_starts_again_on_the_same_port_with_what_it_kept()
    {
        await using var server = await MosquittoServer.StartOwnAsync();
        await MosquittoProgram.PublishAsync(server, "", "-q", "1", "-r", "-t", "kept", "-m", "here");
        var port = server.Port;

        await server.StopAsync();
        await server.StartAsync();

        Assert.Equal(port, server.Port);
        Assert.Equal("here\n", await MosquittoProgram.SubscribeAsync(server, "-t", "kept", "-C", "1"));
    }

    [Fact]
    public async Task A_broker_without_persistence_forgets()
    {
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Persistence = false });
        await MosquittoProgram.PublishAsync(server, "", "-q", "1", "-r", "-t", "kept", "-m", "here");

        await server.StopAsync();
        await server.StartAsync();

        await MosquittoProgram.PublishAsync(server, "", "-q", "1", "-r", "-t", "kept/not", "-m", "new");
        Assert.Equal("new\n", await MosquittoProgram.SubscribeAsync(server, "-t", "kept/#", "-C", "1"));
    }

    [Fact]
    public async Task With_a_user_name_only_its_password_lets_in()
    {
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { UserName = "game", Password = "right" });

        await MosquittoProgram.PublishAsync(server, "", "-u", "game", "-P", "right", "-t", "any", "-m", "here");
        await Assert.ThrowsAsync<InvalidOperationException>(
            () => MosquittoProgram.PublishAsync(server, "", "-u", "game", "-P", "wrong", "-t", "any", "-m", "here"));
        await Assert.ThrowsAsync<InvalidOperationException>(() => MosquittoProgram.PublishAsync(server, "", "-t", "any", "-m", "here"));
    }

    [Fact]
    public async Task A_configuration_that_the_broker_refuses_is_an_error_with_its_words()
    {
        var refused = new MosquittoServerOptions { Lines = ["no_such_setting 1"] };

        var error = await Assert.ThrowsAsync<ServerStartException>(() => MosquittoServer.StartOwnAsync(refused));

        Assert.Contains("no_such_setting", error.Message, StringComparison.Ordinal);
    }
}
