using System.Diagnostics.Metrics;
using BatchKit.Sessions;
using BatchKit.Testing;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.Tests.Sessions;

public sealed class SessionRegistrationTests
{
    [Fact]
    public async Task UseSessions_adds_the_route_and_the_router_before_the_buffers()
    {
        var (local, remote) = (new SomeConnections(), new CollectingTransport());
        var services = new ServiceCollection();
        services.AddBatchKit(options => options.Node = 7).UseLocal(_ => local).AddRoute(LocalFirstRouter.RemoteRoute, _ => remote).UseSessions();
        await using var provider = services.BuildServiceProvider();
        var (output, sessions) = (provider.GetRequiredService<OutputBuffer>(), provider.GetRequiredService<SessionTransport>());
        var connection = local.Open();

        Assert.True(sessions.TryOpen(connection, acknowledges: false, out var session));
        output.Write(session.Handle, ControlMessage.JoinGroup("hall"));
        output.Write(OutputHandle.Named("hall"), "to all");
        output.Write(session.Handle, "mine");
        await output.FlushAsync().WithinDeadline();
        await output.FlushAsync().WithinDeadline();

        Assert.Equal(7, session.Handle.Node);
        Assert.Equal(["to all", "mine"], local.Read(connection));
        Assert.Equal(["to all"], remote.Texts);
    }

    [Fact]
    public async Task A_buffer_with_one_route_and_sessions_needs_no_router_and_one_without_connections_is_refused()
    {
        var local = new SomeConnections();
        var services = new ServiceCollection();
        services.AddBatchKit("game").AddRoute("players", _ => local).UseSessions(options => options.MaxSessions = 1);
        services.AddBatchKit("alone").UseSessions();
        await using var provider = services.BuildServiceProvider();
        var sessions = provider.GetRequiredKeyedService<SessionTransport>("game");

        Assert.True(sessions.TryOpen(local.Open(), acknowledges: true, out _));
        Assert.False(sessions.TryOpen(local.Open(), acknowledges: true, out _));
        Assert.Contains("no route to connections", Assert.Throws<InvalidOperationException>(() => provider.GetRequiredKeyedService<OutputBuffer>("alone")).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Instruments_have_the_name_of_their_buffer()
    {
        var builder = Host.CreateEmptyApplicationBuilder(settings: null);
        builder.Services.AddBatchKit("game").AddRoute("players", static _ => new SomeConnections()).UseSessions();
        using var host = builder.Build();
        var buffers = new List<object?>();
        using var listener = new MeterListener { InstrumentPublished = (instrument, _) => buffers.AddRange(instrument.Name == "batchkit.sessions" ? instrument.Meter.Tags?.Select(static tag => tag.Value) ?? [] : []) };
        listener.Start();

        await using var sessions = host.Services.GetRequiredKeyedService<SessionTransport>("game");

        Assert.Contains("game", buffers);
    }

    [Fact]
    public async Task Options_come_from_a_section_and_a_wrong_one_stops_the_start()
    {
        var section = new ConfigurationBuilder().AddInMemoryCollection(new Dictionary<string, string?> { ["Game:AwayTimeout"] = "00:00:00.5" }).Build().GetSection("Game");
        var builder = Host.CreateEmptyApplicationBuilder(settings: null);
        builder.Services.AddBatchKit().UseLocal(_ => new CollectingTransport()).UseSessions(section);
        using var host = builder.Build();

        var error = await Assert.ThrowsAsync<Microsoft.Extensions.Options.OptionsValidationException>(() => host.StartAsync());

        Assert.Contains("SessionOptions.AwayTimeout", error.Message, StringComparison.Ordinal);
        Assert.Contains("section 'Game'", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Instruments_tell_of_sessions_that_wait()
    {
        await using var rig = new SessionRig();
        var session = rig.OpenAway();
        rig.Output.Write(session.Handle, "waits");
        await rig.SettleAsync();

        var measured = Measure();

        Assert.True(measured["batchkit.sessions"] >= 1);
        Assert.True(measured["batchkit.sessions.away"] >= 1);
        Assert.True(measured["batchkit.sessions.waiting"] >= 5);
        Assert.Superset(new HashSet<string> { "batchkit.sessions.resumed", "batchkit.sessions.expired", "batchkit.sessions.lost" }, measured.Keys.ToHashSet());
    }

    private static Dictionary<string, long> Measure()
    {
        var measured = new Dictionary<string, long>(StringComparer.Ordinal);
        using var listener = new MeterListener
        {
            InstrumentPublished = static (instrument, listener) =>
            {
                if (instrument.Name.StartsWith("batchkit.sessions", StringComparison.Ordinal))
                    listener.EnableMeasurementEvents(instrument);
            },
        };
        listener.SetMeasurementEventCallback<int>((instrument, value, _, _) => measured[instrument.Name] = measured.GetValueOrDefault(instrument.Name) + value);
        listener.SetMeasurementEventCallback<long>((instrument, value, _, _) => measured[instrument.Name] = measured.GetValueOrDefault(instrument.Name) + value);
        listener.Start();
        listener.RecordObservableInstruments();
        return measured;
    }
}
