using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CodeFixes;
using Microsoft.CodeAnalysis.CSharp.Testing;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Testing;

namespace BatchKit.Analyzers.Tests;

/// <summary>Runs one analyzer over a method body, against the real clients. Marks in the code, <c>{|BK0001:Publish|}</c>, say where a rule must report; anywhere else it must not.</summary>
internal static class AnalyzerCheck
{
    // What this test program itself runs with, so that nothing is restored at run time.
    private static readonly MetadataReference[] References =
    [
        .. ((string)AppContext.GetData("TRUSTED_PLATFORM_ASSEMBLIES")!).Split(Path.PathSeparator)
            .Where(path => !Path.GetFileName(path).StartsWith("BatchKit.Analyzers", StringComparison.Ordinal)).Select(path => MetadataReference.CreateFromFile(path)),
    ];

    /// <summary>Checks statements of an async method that has every client at hand.</summary>
    public static Task ReportsAsync<TAnalyzer>(string body)
        where TAnalyzer : DiagnosticAnalyzer, new() => RunAsync<TAnalyzer, EmptyCodeFixProvider>(InMethod(body), fixedSource: null);

    /// <summary>Checks members of a class that has every client at hand.</summary>
    public static Task ReportsInMembersAsync<TAnalyzer>(string members)
        where TAnalyzer : DiagnosticAnalyzer, new() => RunAsync<TAnalyzer, EmptyCodeFixProvider>(InClass(members), fixedSource: null);

    /// <summary>Checks what a fix makes of statements. The result has marks for what is still reported.</summary>
    public static Task FixesAsync<TAnalyzer, TFix>(string body, string fixedBody, bool isAsync = true)
        where TAnalyzer : DiagnosticAnalyzer, new()
        where TFix : CodeFixProvider, new() => RunAsync<TAnalyzer, TFix>(InMethod(body, isAsync), InMethod(fixedBody, isAsync));

    private static Task RunAsync<TAnalyzer, TFix>(string source, string? fixedSource)
        where TAnalyzer : DiagnosticAnalyzer, new()
        where TFix : CodeFixProvider, new()
    {
        var iterations = fixedSource is null || fixedSource == source ? 0 : 1;
        var test = new CSharpCodeFixTest<TAnalyzer, TFix, DefaultVerifier>
        {
            ReferenceAssemblies = new ReferenceAssemblies("net10.0"),
            TestCode = source,
            CompilerDiagnostics = CompilerDiagnostics.Errors,
            MarkupOptions = MarkupOptions.UseFirstDescriptor,
            CodeFixTestBehaviors = CodeFixTestBehaviors.FixOne,
            NumberOfIncrementalIterations = iterations,
            NumberOfFixAllIterations = iterations,
        };
        if (fixedSource is not null)
        {
            test.FixedCode = fixedSource;
            test.FixedState.MarkupHandling = MarkupMode.Allow;
        }

        test.TestState.AdditionalReferences.AddRange(References);
        return test.RunAsync(TestContext.Current.CancellationToken);
    }

    private static string InMethod(string body, bool isAsync = true) => InClass($$"""
        private {{(isAsync ? "async Task" : "void")}} Run()
        {
            {{body.ReplaceLineEndings("\n    ")}}
        }
        """);

    private static string InClass(string members) => $$"""
        using System;
        using System.Collections.Concurrent;
        using System.Collections.Generic;
        using System.Linq;
        using System.Threading;
        using System.Threading.Tasks;
        using BatchKit;
        using MassTransit;
        using Microsoft.AspNetCore.SignalR;
        using MQTTnet;
        using MQTTnet.Server;
        using NATS.Client.JetStream;
        using RabbitMQ.Client;

        internal class Hub2 : Hub;

        internal class Server(
            IBus bus, IPublishEndpoint endpoint, IChannel channel, IMqttClient mqtt, MqttServer mqttServer, IHubContext<Hub2> hub, INatsJSContext jetStream,
            IOutputBuffer output, TypedOutput typed, OutputHandle player, List<string> items, ConcurrentQueue<string> queue, CancellationToken stopping)
        {
            {{members.ReplaceLineEndings("\n    ")}}
        }
        """;
}
