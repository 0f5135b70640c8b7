namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>A message of an application's own.</summary>
/// <param name="Text">What it says.</param>
public sealed record Greeting(string Text);
