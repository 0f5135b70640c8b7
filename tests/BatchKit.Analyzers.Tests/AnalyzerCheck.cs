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

    /// <summary>Checks the message at the mark <c>{|#0:call|}</c> in members.</summary>
    public static Task ReportsInMembersAsync<TAnalyzer>(string members, DiagnosticDescriptor rule, string argument)
        where TAnalyzer : DiagnosticAnalyzer, new() => RunAsync<TAnalyzer, EmptyCodeFixProvider>(InClass(members), fixedSource: null, expected: new DiagnosticResult(rule).WithLocation(0).WithArguments(argument));

    /// <summary>Checks what a fix makes of statements. The result has marks for what is still reported.</summary>
    public static Task FixesAsync<TAnalyzer, TFix>(string body, string fixedBody, bool isAsync = true)
        where TAnalyzer : DiagnosticAnalyzer, new()
        where TFix : CodeFixProvider, new() => RunAsync<TAnalyzer, TFix>(InMethod(body, isAsync), InMethod(fixedBody, isAsync));

    /// <summary>Checks what two fixes make of statements, one after the other and as one "fix all".</summary>
    public static Task FixesBothAsync<TAnalyzer, TFix>(string body, string fixedBody)
        where TAnalyzer : DiagnosticAnalyzer, new()
        where TFix : CodeFixProvider, new() => RunAsync<TAnalyzer, TFix>(InMethod(body), InMethod(fixedBody), fixes: 2);

    /// <summary>Checks what a fix makes of members.</summary>
    public static Task FixesInMembersAsync<TAnalyzer, TFix>(string members, string fixedMembers)
        where TAnalyzer : DiagnosticAnalyzer, new()
        where TFix : CodeFixProvider, new() => RunAsync<TAnalyzer, TFix>(InClass(members), InClass(fixedMembers));

    /// <summary>Checks that a rule reports something in statements, and that there is no fix.</summary>
    public static Task FixesNothingAsync<TAnalyzer, TFix>(string body, bool isAsync = true)
        where TAnalyzer : DiagnosticAnalyzer, new()
        where TFix : CodeFixProvider, new() => FixesAsync<TAnalyzer, TFix>(body, body, isAsync);

    /// <summary>Checks what a fix makes of a program's top-level statements, which have an <c>output</c> and a <c>player</c>.</summary>
    public static Task FixesInProgramAsync<TAnalyzer, TFix>(string statements, string fixedStatements)
        where TAnalyzer : DiagnosticAnalyzer, new()
        where TFix : CodeFixProvider, new() => RunAsync<TAnalyzer, TFix>(InProgram(statements), InProgram(fixedStatements), OutputKind.ConsoleApplication);

    private static Task RunAsync<TAnalyzer, TFix>(string source, string? fixedSource, OutputKind kind = OutputKind.DynamicallyLinkedLibrary, int fixes = 1, DiagnosticResult? expected = null)
        where TAnalyzer : DiagnosticAnalyzer, new()
        where TFix : CodeFixProvider, new()
    {
        var isFixed = fixedSource is not null && fixedSource != source;
        var test = new CSharpCodeFixTest<TAnalyzer, TFix, DefaultVerifier>
        {
            ReferenceAssemblies = new ReferenceAssemblies("net10.0"),
            TestCode = source,
            CompilerDiagnostics = CompilerDiagnostics.Errors,
            MarkupOptions = MarkupOptions.UseFirstDescriptor,
            CodeFixTestBehaviors = fixes == 1 ? CodeFixTestBehaviors.FixOne : CodeFixTestBehaviors.None,
            NumberOfIncrementalIterations = isFixed ? fixes : 0,
            NumberOfFixAllIterations = isFixed ? 1 : 0,
        };
        if (fixedSource is not null)
        {
            test.FixedCode = fixedSource;
            test.FixedState.MarkupHandling = MarkupMode.Allow;
        }

        if (expected is { } result)
            test.ExpectedDiagnostics.Add(result);
        test.TestState.OutputKind = kind;
        test.TestState.AdditionalReferences.AddRange(References);
        return test.RunAsync(TestContext.Current.CancellationToken);
    }

    private static string InMethod(string body, bool isAsync = true) => InClass($$"""
        private {{(isAsync ? "async Task" : "void")}} Run()
        {
            {{body.ReplaceLineEndings("\n    ")}}
        }
        """);

    private static string InProgram(string statements) => $$"""
        using BatchKit;

        OutputHandle player = default;
        IOutputBuffer output = null;
        {{statements}}
        """;

    private static string InClass(string members) => $$"""
        using System;
        using System.Collections.Concurrent;
        using System.Collections.Generic;
        using System.Linq;
        using System.Threading;
        using System.Threading.Tasks;
        using BatchKit;
        using BatchKit.Broadcast;
        using MassTransit;
        using Microsoft.AspNetCore.SignalR;
        using MQTTnet;
        using MQTTnet.Server;
        using NATS.Client.JetStream;
        using RabbitMQ.Client;

        internal class Hub2 : Hub;

        internal interface IListener
        {
            Task Said(string text);

            Task<int> Ask(string text);
        }

        internal class TypedHub : Hub<IListener>;

        internal class Server(
            IBus bus, IPublishEndpoint endpoint, IChannel channel, IMqttClient mqtt, MqttServer mqttServer, IHubContext<Hub2> hub, IHubContext<TypedHub, IListener> typedHub, IListener listener, INatsJSContext jetStream,
            IOutputBuffer output, TypedOutput typed, OutputHandle player, List<string> items, ConcurrentQueue<string> queue, CancellationToken stopping)
        {
            {{members.ReplaceLineEndings("\n    ")}}
        }
        """;
}
