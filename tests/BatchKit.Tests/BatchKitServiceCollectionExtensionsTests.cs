using System.Collections.Immutable;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace BatchKit.Tests;

public sealed class BatchKitServiceCollectionExtensionsTests
{
    private readonly HostApplicationBuilder _application = Host.CreateEmptyApplicationBuilder(settings: null);
    private readonly CollectingTransport _transport = new();

    private IServiceCollection Services => _application.Services;

    [Fact]
    public async Task The_unnamed_buffer_is_one_under_all_its_services()
    {
        Services.AddBatchKit().UseLocal(_ => _transport);
        using var host = _application.Build();

        var output = host.Services.GetRequiredService<OutputBuffer>();

        await using (output)
        {
            Assert.Same(output, host.Services.GetRequiredService<IOutputBuffer>());
            Assert.Same(output, host.Services.GetRequiredKeyedService<IOutputBuffer>(string.Empty));
        }
    }

    [Fact]
    public async Task Named_buffers_have_their_own_options_and_routes()
    {
        var other = new CollectingTransport();
        Services.AddBatchKit("first", options => options.MaxMessageBytes = 2).UseLocal(_ => _transport);
        Services.AddBatchKit("second").UseLocal(_ => other);
        using var host = _application.Build();
        await host.StartAsync(TestContext.Current.CancellationToken);
        var first = host.Services.GetRequiredKeyedService<OutputBuffer>("first");
        var second = host.Services.GetRequiredKeyedService<OutputBuffer>("second");

        second.Write(Some.Connection(), "abc");
        var refused = Record.Exception(() => first.Write(Some.Connection(), "abc"));
        await host.StopAsync(TestContext.Current.CancellationToken);

        Assert.Equal("first", first.Name);
        Assert.IsType<OutputOverflowException>(refused);
        Assert.Equal(["abc"], other.Texts);
        Assert.Empty(_transport.Texts);
        Assert.Null(host.Services.GetService<IOutputBuffer>());
    }

    [Fact]
    public async Task The_host_drains_the_buffer_at_its_stop()
    {
        var player = Some.Connection();
        Services.AddBatchKit().UseLocal(_ => _transport);
        using var host = _application.Build();
        await host.StartAsync(TestContext.Current.CancellationToken);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var scope = output.BeginBufferingScope(player);
        output.Write(player, "held back by a scope that is still open");

        await host.StopAsync(TestContext.Current.CancellationToken).WithinDeadline();

        Assert.Equal(1, _transport.MessageCount);
        Assert.False(output.TryWrite(player, "late"u8));
        scope.Dispose();
    }

    [Fact]
    public async Task A_bad_option_stops_the_start_and_is_named()
    {
        Services.AddBatchKit("game", options => options.MaxBatchMessages = 0).UseLocal(_ => _transport);
        using var host = _application.Build();

        var exception = await Assert.ThrowsAsync<OptionsValidationException>(() => host.StartAsync(TestContext.Current.CancellationToken));

        Assert.Equal("game", exception.OptionsName);
        Assert.Contains("MaxBatchMessages", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Options_are_read_from_a_section_and_then_set()
    {
        _application.Configuration.AddInMemoryCollection(
        [
            new("Game:Output:Node", "7"), new("Game:Output:MaxBufferedBytes", "5000000000"), new("Game:Output:Linger", "00:00:00.250"),
            new("Game:Output:Overflow", "dropOldest"), new("Game:Output:MaxMessageBytes", "10"), new("Game:Output:Unknown", "ignored"), new("Node", "8"),
        ]);
        Services.AddBatchKit("game", _application.Configuration.GetSection("Game:Output"), options => options.MaxMessageBytes = 20).UseLocal(_ => _transport);
        Services.AddBatchKit(_application.Configuration).UseLocal(_ => _transport);
        using var host = _application.Build();
        await host.StartAsync(TestContext.Current.CancellationToken);
        var monitor = host.Services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>();

        var named = monitor.Get("game");
        var unnamed = monitor.CurrentValue;

        Assert.Equal((7, 5_000_000_000, TimeSpan.FromMilliseconds(250)), (named.Node, named.MaxBufferedBytes, named.Linger));
        Assert.Equal((OverflowPolicy.DropOldest, 20), (named.Overflow, named.MaxMessageBytes));
        Assert.Equal(8, unnamed.Node);
        await host.StopAsync(TestContext.Current.CancellationToken).WithinDeadline();
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Frame_keys_of_a_section_replace_those_that_were_set_in_code_before(bool hasKeys)
    {
        var (older, newer) = (Some.RandomBytes(FrameSigner.MinKeyBytes), Some.RandomBytes(FrameSigner.MinKeyBytes));
        _application.Configuration.AddInMemoryCollection([new("Game:MaxBatchMessages", "7"), new(hasKeys ? "Game:FrameKeys:0" : "Other", Convert.ToBase64String(newer))]);
        Services.Configure<OutputBufferOptions>(options => options.FrameKeys.Add(older));
        Services.AddBatchKit(_application.Configuration.GetSection("Game")).UseLocal(_ => _transport);
        using var host = _application.Build();

        var keys = host.Services.GetRequiredService<IOptions<OutputBufferOptions>>().Value.FrameKeys;

        Assert.Equal(hasKeys ? newer : older, Assert.Single(keys));
    }

    [Theory]
    [InlineData("", " It is set in section 'Game:Output'.")]
    [InlineData("game", " It is set for the output buffer 'game' in section 'Game:Output'.")]
    public async Task A_bad_option_of_a_section_names_the_section(string name, string origin)
    {
        _application.Configuration.AddInMemoryCollection([new("Game:Output:MaxBatchMessages", "0")]);
        var section = _application.Configuration.GetSection("Game:Output");
        var builder = name.Length == 0 ? Services.AddBatchKit(section) : Services.AddBatchKit(name, section);
        builder.UseLocal(_ => _transport);
        using var host = _application.Build();

        var exception = await Assert.ThrowsAsync<OptionsValidationException>(() => host.StartAsync(TestContext.Current.CancellationToken));

        Assert.Equal("OutputBufferOptions.MaxBatchMessages (0) must be between 1 and 1000000." + origin, Assert.Single(exception.Failures));
    }

    [Fact]
    public async Task Text_in_a_section_that_is_no_number_is_named()
    {
        _application.Configuration.AddInMemoryCollection([new("Game:MaxBatchMessages", "many")]);
        Services.AddBatchKit(_application.Configuration.GetSection("Game")).UseLocal(_ => _transport);
        using var host = _application.Build();

        var exception = await Assert.ThrowsAsync<OptionsValidationException>(() => host.StartAsync(TestContext.Current.CancellationToken));

        Assert.Contains("Game:MaxBatchMessages", exception.Message, StringComparison.Ordinal);
        Assert.Contains("many", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_buffer_without_a_route_stops_the_start_and_says_what_to_call()
    {
        Services.AddBatchKit("game");
        using var host = _application.Build();

        var exception = await Assert.ThrowsAsync<InvalidOperationException>(() => host.StartAsync(TestContext.Current.CancellationToken));

        Assert.Contains("'game' has no route", exception.Message, StringComparison.Ordinal);
        Assert.Contains("UseLocal", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_process_that_only_receives_needs_no_route_and_is_healthy()
    {
        Services.AddBatchKit().AddFrameReceiver(_ => new CollectingTransport());
        using var host = _application.Build();

        await host.StartAsync(TestContext.Current.CancellationToken);

        var health = await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync(TestContext.Current.CancellationToken);
        Assert.Equal(HealthStatus.Healthy, health.Status);
        Assert.Contains("has no route", Assert.Throws<InvalidOperationException>(host.Services.GetRequiredService<IOutputBuffer>).Message, StringComparison.Ordinal);
        await host.StopAsync(TestContext.Current.CancellationToken);
    }

    [Fact]
    public void A_receivers_settings_are_the_options_of_its_buffers_name()
    {
        var game = Services.AddBatchKit("game");
        Services.Configure<BatchReceiverOptions>("game", options => options.DeliveryTimeout = TimeSpan.FromSeconds(7));
        using var host = _application.Build();

        var options = game.CreateReceiverOptions(host.Services);

        Assert.Equal(TimeSpan.FromSeconds(7), options.DeliveryTimeout);
        Assert.NotNull(options.IsDeliveredLocally);
        Assert.NotSame(options, game.CreateReceiverOptions(host.Services));
    }

    [Fact]
    public async Task A_task_before_hosted_services_ends_before_the_first_of_them_starts()
    {
        var (order, ready) = (new List<string>(), new TaskCompletionSource());
        Services.AddSingleton<IHostedService>(new StartProbe(() => order.Add("service")));
        Services.AddBatchKit().AllowNoRoute().BeforeHostedServices(_ => async cancellationToken =>
        {
            await ready.Task.WaitAsync(cancellationToken);
            order.Add("task");
        });
        using var host = _application.Build();

        var starting = host.StartAsync(TestContext.Current.CancellationToken);
        ready.SetResult();
        await starting.WithinDeadline();

        Assert.Equal(["task", "service"], order);
        await host.StopAsync(TestContext.Current.CancellationToken).WithinDeadline();
    }

    [Fact]
    public async Task A_task_before_hosted_services_that_fails_stops_the_start()
    {
        var hasStarted = false;
        Services.AddSingleton<IHostedService>(new StartProbe(() => hasStarted = true));
        Services.AddBatchKit().AllowNoRoute().BeforeHostedServices(_ => _ => throw new IOException("The broker is down."));
        using var host = _application.Build();

        var failed = await Assert.ThrowsAsync<IOException>(() => host.StartAsync(TestContext.Current.CancellationToken));

        Assert.Equal("The broker is down.", failed.Message);
        Assert.False(hasStarted);
    }

    [Fact]
    public async Task Several_routes_that_nothing_chooses_between_stop_the_start()
    {
        Services.AddBatchKit().UseLocal(_ => _transport).AddRoute("audit", _ => _transport);
        using var host = _application.Build();

        var exception = await Assert.ThrowsAsync<InvalidOperationException>(() => host.StartAsync(TestContext.Current.CancellationToken));

        Assert.Contains("local, audit", exception.Message, StringComparison.Ordinal);
        Assert.Contains("UseRouter", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_name_is_refused_twice()
    {
        Services.AddBatchKit("game");
        Services.AddBatchKit();

        var named = Assert.Throws<InvalidOperationException>(() => Services.AddBatchKit("game"));
        var unnamed = Assert.Throws<InvalidOperationException>(() => Services.AddBatchKit());

        var cased = Assert.Throws<InvalidOperationException>(() => Services.AddBatchKit("Game"));

        Assert.Contains("'Game' differs from 'game' only in case", cased.Message, StringComparison.Ordinal);
        Assert.Contains("'game'", named.Message, StringComparison.Ordinal);
        Assert.Contains("unnamed", unnamed.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_route_is_refused_twice()
    {
        var builder = Services.AddBatchKit("game").UseLocal(_ => _transport);

        var exception = Assert.Throws<InvalidOperationException>(() => builder.UseLocal(_ => _transport));

        Assert.Contains("'game' already has a route 'local'", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_router_is_refused_twice()
    {
        var builder = Services.AddBatchKit().UseRouter(_ => new LocalFirstRouter(0));

        Assert.Throws<InvalidOperationException>(() => builder.UseRouter(_ => new LocalFirstRouter(0)));
    }

    [Fact]
    public async Task A_local_and_a_remote_route_are_chosen_between_by_the_node()
    {
        var remote = new CollectingTransport();
        Services.AddBatchKit(options => options.Node = 7)
            .AddRoute(LocalFirstRouter.RemoteRoute, _ => remote)
            .UseLocal(_ => _transport);
        using var host = _application.Build();
        await host.StartAsync(TestContext.Current.CancellationToken);
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        output.Write(Some.Connection(node: 7), "here");
        output.Write(Some.Connection(node: 8), "there");
        output.Write(Some.Group(), "everywhere");
        await host.StopAsync(TestContext.Current.CancellationToken).WithinDeadline();

        Assert.Equal(["here", "everywhere"], _transport.Texts);
        Assert.Equal(["there", "everywhere"], remote.Texts);
    }

    [Fact]
    public async Task A_router_of_ones_own_chooses()
    {
        var audit = new CollectingTransport();
        Services.AddBatchKit().UseLocal(_ => _transport).AddRoute("audit", _ => audit).UseRouter(_ => new OneRouteRouter("audit"));
        using var host = _application.Build();
        await host.StartAsync(TestContext.Current.CancellationToken);

        host.Services.GetRequiredService<IOutputBuffer>().Write(Some.Connection(), "seen");
        await host.StopAsync(TestContext.Current.CancellationToken).WithinDeadline();

        Assert.Equal(["seen"], audit.Texts);
        Assert.Empty(_transport.Texts);
    }

    [Fact]
    public async Task Each_buffer_has_a_health_check()
    {
        Services.AddLogging();
        Services.AddBatchKit().UseLocal(_ => _transport);
        Services.AddBatchKit("audit").UseLocal(_ => _transport);
        using var host = _application.Build();
        await host.StartAsync(TestContext.Current.CancellationToken);
        var checks = host.Services.GetRequiredService<HealthCheckService>();

        var running = await checks.CheckHealthAsync(TestContext.Current.CancellationToken);
        await host.StopAsync(TestContext.Current.CancellationToken).WithinDeadline();
        var stopped = await checks.CheckHealthAsync(TestContext.Current.CancellationToken);

        Assert.Equal("batchkit, batchkit-audit", string.Join(", ", running.Entries.Keys.Order(StringComparer.Ordinal)));
        Assert.Equal(HealthStatus.Healthy, running.Status);
        Assert.Equal(HealthStatus.Unhealthy, stopped.Status);
        Assert.All(stopped.Entries.Values, entry => Assert.False(string.IsNullOrWhiteSpace(entry.Description)));
    }

    private sealed class StartProbe(Action started) : IHostedService
    {
        public Task StartAsync(CancellationToken cancellationToken)
        {
            started();
            return Task.CompletedTask;
        }

        public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;
    }

    private sealed class OneRouteRouter(string route) : IOutputRouter
    {
        private readonly ImmutableArray<string> _routes = [route];

        public ImmutableArray<string> GetRoutes(OutputHandle handle) => _routes;
    }
}
